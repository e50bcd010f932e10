"""The rules of the online engine, one file for each subject."""

"""The probe topics: what they should be like, and the changes that make them so."""

"""What can go wrong, each thing defined once: the catalogue, the offline checker, the online tracker.

Pure: no I/O, no clock, no thread.
"""

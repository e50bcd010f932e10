"""What the cluster answers about itself, once a second: its id, its topics' incarnations, leaders, offsets.

``sampler`` asks and puts the answers into the inbox as facts; it never judges. Each round has a number (``sample``)
that its answers carry, and WatchAsked(sample) is in the inbox before the first request leaves: an answer may be held
only against facts before that (ARCHITECTURE decision 5).
"""

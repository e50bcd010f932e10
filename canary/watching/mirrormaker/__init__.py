"""Reads a topic of another cluster and its mirror in this one (MirrorMaker 2), and hands what it read to the judge.

Plain consumers with assigned partitions: they join no group and commit nothing. ``logs`` reads one side,
``checkpoints`` understands MirrorMaker 2's translated offsets, ``mirror_watcher`` is the thread.
"""

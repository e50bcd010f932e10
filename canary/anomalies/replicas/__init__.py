"""Replicas of a partition held against each other: where they differ, what compaction explains, what is left. Pure.

* ``copies``: what a replica gave, and where copies differ;
* ``compaction``: which records may be missing on one replica because it was compacted before another;
* ``divergence``: differences that lie together, which broker is the odd one, and the violation.
"""

"""Replicas of a topic compared, byte by byte where that is enough, record by record where it is not.

What differs and what explains it is judged in canary.anomalies.replicas; here replicas are read.

* ``source``: what a cluster answers: replicas, in-sync replicas, log starts, batches;
* ``outcomes``: what a pass over a partition found, and why something could not be compared;
* ``comparing``: one partition, window after window, twice where something differs;
* ``scrubber``: the thread that does so without end, slowly.
"""

"""Salvage: what a former leader's log directory holds, and the cluster no longer does.

An unclean election makes a replica leader that lacks acknowledged records; the former leader's disk has them until it
rejoins. The way of a record: ``segments`` (batches out of files, damage named) → ``divergence`` (does the cluster still
have it: by leader epochs, KIP-101 and KIP-279) → ``outcomes`` (did its transaction commit) → ``collisions`` (has its
key a newer record) → ``salvaged`` (a Parquet file for each partition, beside a manifest) → ``replaying`` (into a topic
of its own). ``directory`` and ``cluster`` are the two ends. Nothing here writes to a log directory.
"""

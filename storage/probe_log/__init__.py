"""The probe log: what was promised and what was seen, as Parquet at a URL (ARCHITECTURE decision 11, CONTRACTS).

Three tables, ``probes/``, ``transactions/`` and ``polls/``, have one file each for every sealed segment of a ledger,
sorted by (topic, partition, offset): ``<table>/<day>/<cluster>--<runner>--<ledger>-<segment>.parquet``. A file's name
depends on nothing but the segment: shipping it again after a crash replaces the same files.

* Every identity that a segment sent has a row in its file, as indeterminate if its outcome was not known at the seal;
  the segment in which the outcome came has a row again. Of two rows for an identity the acked one counts, and a failed
  one before an indeterminate one (RECONCILIATION rule 15).
* A transaction has one row, in the segment in which it ended.
* Files appear whole (temporary name, fsync, rename, fsync of the directory), polls and transactions before probes, so
  that the log never holds a promise without the transaction that excuses it.
* The samples of the topic's id around a row decide to which incarnation it belongs (storage.probe_log.incarnations).

`shipping` and `compacting` write, `reading` answers questions, `windows` turns the rows of some hours into a history.
All but `errors` and `windows` load Arrow.
"""

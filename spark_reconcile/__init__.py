"""What was promised, compared with what the topics really hold: RECONCILIATION.md, by Spark, every night.

The rooms, each of which imports only those below it
-----------------------------------------------------
- ``nightly`` runs a dump and a reconciliation of each cluster every night and records the violations in the store.
  ``history`` is ``canary check --engine spark``.
- ``job`` is the reconciliation as a Spark job (ARCHITECTURE decision 12). It cuts each partition into ranges of
  offsets; a task reads one range's row groups and settles it. Rows of any layout that does not allow this are first
  written once more, by partition and range.
- ``dump`` reads topics with Spark's Kafka source and keeps what it read for the next night. ``report`` writes
  verdicts/, partitions/, anomalies/, lost/, summary.json and report.html, and turns cases into violations.
- ``match`` compares probe log and dump as NumPy columns. ``kernel`` settles a range: nearly every probe is found at the
  offset where it was acknowledged. What a range cannot settle alone, a few rows, ``merging``
  and ``cross_range`` join over all ranges of the partition. ``rules`` is the only place where a verdict is chosen.
  ``ordering`` looks for cycles of transactions among the few dependencies that may lie on one.
- ``tables`` knows the Parquet tables: it checks the footers of all files and refuses bad input before Spark starts,
  reads rows into columns, and writes files.

Only ``job`` and ``dump`` import Spark.
"""

"""What was promised against what the topics really hold: RECONCILIATION.md, by Spark, every night.

The way of a run (ARCHITECTURE decision 12)
-------------------------------------------
1. ``tables`` looks at the footers of every Parquet file and refuses bad input before Spark starts.
2. ``ranges`` cuts each partition of each topic into ranges of offsets. Where footers say that row groups hold one
   partition and narrow offsets, a task reads just its row groups; any other layout is brought into that shape first.
3. ``kernel`` settles a range on NumPy columns: nearly every probe is where it was acked. The rest is *residue*.
4. ``merging`` and ``residue`` bring together what several ranges of a partition know of an identity, a few rows of
   each, and judge it. ``judging`` is the only place where a verdict is chosen.
5. ``ordering`` looks for circles of transactions among the few edges that may lie on one.
6. ``output`` writes verdicts/, partitions/, anomalies/, lost/, summary.json and report.html.

``dump`` reads the topics with Spark's Kafka source; ``nightly`` runs both for a cluster and puts violations into the
store, ``keeping`` what was read for the next run, which ``ends`` compares with the log; ``schedule`` decides when, and
``compaction`` merges the probe log's small files in between. Spark itself is imported nowhere but in session, running
and dump.
"""

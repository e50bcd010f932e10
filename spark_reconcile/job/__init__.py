"""The Spark job: Parquet files to ranges of offsets, ranges to tasks, tasks to verdicts."""

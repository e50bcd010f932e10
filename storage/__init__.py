"""The only rooms that touch a disk or a database.

* storage.ledger: what was seen, durable on the canary's own disk before anybody judges it; segments of framed Arrow
  batches, each with a checksum, fsynced per batch.
* storage.probe_log: sealed segments turned into sorted Parquet at a URL, for Spark, the API and people.
* storage.store: what was derived (violations, incidents, views, leases, reconciliations) in SQLite or PostgreSQL.

Each raises one kind of error (LedgerError, ProbeLogError, StoreError) that says where and what to do, and no secret.
"""

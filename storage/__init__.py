"""The only package that touches a disk or a database.

* storage.ledger: facts, durable on the runner's own disk before they are judged; segments of framed Arrow batches, each
  with a checksum and fsynced.
* storage.probe_log: sealed segments as sorted Parquet at a URL, for Spark, the API and people.
* storage.store: what is derived from facts (violations, incidents, views, leases, reconciliations) in SQLite or
  PostgreSQL.

Each raises one kind of error (LedgerError, ProbeLogError, StoreError), which names the place and the remedy and no
secret.
"""

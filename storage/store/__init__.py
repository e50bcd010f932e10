"""The store: results in SQLite or PostgreSQL, for the API, the scheduler and the next start of a runner.

It is the source of the metrics (ARCHITECTURE decision 10) and decides which process may write (generations, leases).
Probing goes on while it is away. `Store` holds a repository for each family of tables, like ``store.violations``. Every
method of a repository runs one transaction and raises StoreError when the database does not answer. Calling it again is
always right: records have keys, and leases and generations are taken by compare-and-set.
"""

from storage.store.errors import StoreError
from storage.store.store import Store

__all__ = ["Store", "StoreError"]

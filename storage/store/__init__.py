"""The store: what was derived, in SQLite or PostgreSQL, for the API, the scheduler and the next runner.

It is the truth for metrics (ARCHITECTURE decision 10) and for who may write (identities' generations, leases), and it
may be away: probing goes on without it. Every method of Store runs one transaction and raises StoreError, with the
database's name and without its password, when the database does not answer; calling again is always right (what is
recorded is keyed, what is taken is taken by compare-and-set).
"""

from storage.store.errors import BadValueError, StoreError
from storage.store.leases import Leases
from storage.store.pages import BadCursorError, Page
from storage.store.retention import StillProbedError
from storage.store.store import AHEAD_NS, Store
from storage.store.values import (
    Action,
    Held,
    Incident,
    IncidentFilter,
    Lease,
    Maintenance,
    Purged,
    Reconciliation,
    Sighting,
    StoredViolation,
    Token,
    View,
    ViolationCount,
    ViolationFilter,
)

__all__ = [
    "AHEAD_NS",
    "Action",
    "BadCursorError",
    "BadValueError",
    "Held",
    "Incident",
    "IncidentFilter",
    "Lease",
    "Leases",
    "Maintenance",
    "Page",
    "Purged",
    "Reconciliation",
    "Sighting",
    "StillProbedError",
    "Store",
    "StoreError",
    "StoredViolation",
    "Token",
    "View",
    "ViolationCount",
    "ViolationFilter",
]

"""Errors of the store."""

from canary.errors import UserError


class StoreError(UserError):
    """The database does not answer or refuses; the message names it without its password. Exit status 3."""

    exit_status = 3


class UnwritableError(StoreError):
    """The database answers and takes no write: it is locked, read-only, or its disk is full. Exit status 3.

    ``reason``: the database's own words.
    """

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(f"the store {store} takes no write: {reason}")
        self.reason = reason


class BadValueError(StoreError):
    """The database refuses a value, like PostgreSQL a text with NUL. Exit status 2."""

    exit_status = 2


class AllClustersError(StoreError):
    """What is asked is of all clusters, and only some may be seen (`storage.store.visibility`). Exit status 2."""

    exit_status = 2

    def __init__(self) -> None:
        super().__init__("this is of all clusters, and only some of them may be seen here")

"""What the store says when it cannot answer."""

from __future__ import annotations

from canary.errors import UserError


class StoreError(UserError):
    """The database cannot be reached, or refuses; the message names it without its password. Exit status 3."""

    def __init__(self, message: str, exit_status: int = 3) -> None:
        super().__init__(message, exit_status)


class BadValueError(StoreError):
    """The database cannot hold a value that it was given: PostgreSQL no text with a NUL. Exit status 2."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 2)

"""What the store says when it cannot answer."""

from __future__ import annotations

from canary.errors import UserError


class StoreError(UserError):
    """The database cannot be reached, or refuses; the message names it without its password. Exit status 3."""

    def __init__(self, message: str, exit_status: int = 3) -> None:
        super().__init__(message, exit_status)

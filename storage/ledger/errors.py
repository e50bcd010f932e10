"""What the ledger says when it cannot keep its promise."""

from __future__ import annotations

from canary.errors import UserError


class LedgerError(UserError):
    """The ledger cannot be read or made durable; the message names the file and the remedy. Exit status 3."""

    def __init__(self, message: str, exit_status: int = 3) -> None:
        super().__init__(message, exit_status)


class LedgerLockedError(LedgerError):
    """Another live process holds the ledger's directory. Exit status 4, as for a lease that is held."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 4)

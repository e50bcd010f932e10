"""Errors of the ledger."""

from canary.errors import UserError


class LedgerError(UserError):
    """The ledger cannot be read or made durable; the message names the file and the remedy. Exit status 3."""

    exit_status = 3


class LedgerLockedError(LedgerError):
    """Another live process holds the ledger's directory. Exit status 4, as for a lease that is held."""

    exit_status = 4

"""What can go wrong with a lab, as one error with a remedy in its message."""

from canary.errors import UserError


class LabError(UserError):
    """A lab cannot be fetched, started or handled as asked; the message says what to do about it."""

    exit_status = 1

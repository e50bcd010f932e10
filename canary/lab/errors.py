"""What can go wrong with a lab, as one error with a remedy in its message."""

from canary.errors import UserError


class LabError(UserError):
    """A lab cannot be fetched, started or handled as asked; the message says what to do about it."""

    def __init__(self, message: str, exit_status: int = 1) -> None:
        super().__init__(message, exit_status)

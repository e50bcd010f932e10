"""The error that a user can mend; it imports nothing, so that the command line starts at once."""

FAILED = 70
"""Exit status of a runner that lost a part it cannot start again, or facts that it could not make durable."""


class UserError(Exception):
    """What the command line shows as one line on stderr, without a traceback.

    ``exit_status`` is a documented one (CONTRACTS "Commands"): 2 bad input, 3 unreachable, 4 another runner is alive,
    or FAILED. A class has the usual one of its errors.
    """

    exit_status = 2

    def __init__(self, message: str, exit_status: int | None = None) -> None:
        super().__init__(message)
        if exit_status is not None:
            self.exit_status = exit_status

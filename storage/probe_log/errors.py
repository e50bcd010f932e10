"""What the probe log says when it cannot be written or read."""

from __future__ import annotations

from canary.errors import UserError


class ProbeLogError(UserError):
    """The probe log cannot be reached, written or read; the message names the place. Exit status 3."""

    def __init__(self, message: str, exit_status: int = 3) -> None:
        super().__init__(message, exit_status)

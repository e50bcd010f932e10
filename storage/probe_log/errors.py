"""What the probe log says when it cannot be written or read."""

from __future__ import annotations

from canary.errors import UserError


class ProbeLogError(UserError):
    """The probe log cannot be reached, written or read; the message names the place. Exit status 3."""

    def __init__(self, message: str, exit_status: int = 3) -> None:
        super().__init__(message, exit_status)


class NothingThereError(ProbeLogError):
    """There is no file, of a cluster or at all: nothing was shipped yet, or runners write to another place."""

    def __init__(self, url: str, cluster: str | None) -> None:
        of = "" if cluster is None else f" of cluster {cluster}"
        super().__init__(
            f"the probe log {url} holds nothing{of}; probe_log.url has to name the place that the runner writes to"
        )

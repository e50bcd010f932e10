"""Errors of the probe log."""

from canary.errors import UserError


class ProbeLogError(UserError):
    """The probe log cannot be reached, written or read; the message names the place. Exit status 3."""

    exit_status = 3


class NothingThereError(ProbeLogError):
    """The probe log has no file (of a cluster): nothing was shipped yet, or runners write to another place."""

    def __init__(self, url: str, cluster: str | None) -> None:
        of = "" if cluster is None else f" of cluster {cluster}"
        super().__init__(
            f"the probe log {url} holds nothing{of}; probe_log.url has to name the place that the runner writes to"
        )

"""The probe log as the API opens it: at the first question, which loads Arrow and doubles the memory of the process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from canary.extras import require_for_url

if TYPE_CHECKING:
    from storage.probe_log.reading import ProbeLogReader


def late_probe_log(url: str) -> Callable[[], ProbeLogReader]:
    """Return a function that opens the probe log at ``url`` at its first call.

    Raises:
        UserError: the URL needs an extra that is not installed.
    """
    require_for_url(url, "probe_log.url")

    @cache
    def opened() -> ProbeLogReader:
        from storage.probe_log.reading import ProbeLogReader  # noqa: PLC0415  # loads Arrow

        return ProbeLogReader(url)

    return opened

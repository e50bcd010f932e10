"""The probe log as the API opens it: the first question loads Arrow, which would double what the process holds."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from canary.extras import require_for_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from api.ports import ProbeLog
    from canary.probe.identity import Identity
    from storage.probe_log.windows import Window, WindowRows


class LateProbeLog:
    """The probe log at a URL. Opens nothing until it is asked; safe for several threads.

    Raises:
        UserError: the URL needs an extra that is not installed.
    """

    def __init__(self, url: str) -> None:
        require_for_url(url, "probe_log.url")
        self._url = url

    @cached_property
    def _reader(self) -> ProbeLog:
        from storage.probe_log import ProbeLogReader  # noqa: PLC0415  # loads Arrow

        return ProbeLogReader(self._url)

    def find(self, identity: Identity, /) -> Mapping[str, Any] | None:
        """Return what is known of one probe."""
        return self._reader.find(identity)

    def between(
        self, cluster: str, topic: str, partition: int, start: int, end: int, limit: int, /
    ) -> Sequence[Mapping[str, Any]]:
        """Return rows of offsets in [start, end)."""
        return self._reader.between(cluster, topic, partition, start, end, limit)

    def window(self, wanted: Window, /) -> WindowRows:
        """Return the rows of a time."""
        return self._reader.window(wanted)

"""Receivers of notifications, and what they are told: values, frozen, times in ns since the epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Change = Literal["opened", "worsened", "resolved", "reopened", "continues"]
LOOKED_S: Final = 30.0
"""A process that tells a receiver notes every 10 s that it looks for what is new."""
UNTOLD_S: Final = 300.0
"""A receiver that is not told for longer could not be told: the alert CanaryNotificationsWaiting, and heartbeats."""


@dataclass(frozen=True, slots=True)
class Notification:
    """What a receiver is told of an incident: its ``number``-th ``change``, with the ``incident`` as it was then.

    ``id`` is the same however often it is sent. ``rank``: how bad it was (`policy.rank`), of the latest one how bad the
    incident was at the last look; ``openings``: of the incident then. ``alerts``: the severities and classes of which
    the receiver was told since it was opened, like "critical data" (`policy.alert_of`), this one the last. All three
    None: an older version wrote it. ``incident`` has as ``lost_records``, too, how many acknowledged writes were known
    to be lost in it. ``due_ns``: it is not sent before.
    ``ended_ns``: when it was delivered, or given up. ``error``: why it could not be sent last.
    """

    id: str
    receiver: str
    incident_id: str
    number: int
    cluster: str
    change: Change
    severity: str
    rank: int | None
    openings: int | None
    alerts: Sequence[str] | None
    incident: Mapping[str, Any]
    at_ns: int
    state: Literal["waiting", "delivered", "dropped"]
    attempts: int
    due_ns: int
    ended_ns: int | None
    error: str | None

    @property
    def next_ns(self) -> int | None:
        """When it is sent next; None: it is over."""
        return self.due_ns if self.state == "waiting" else None


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver of notifications, known since ``since_ns``.

    ``looked_ns``: when its incidents were last looked at; of a heartbeat, when it was last called. ``failed``: how
    many attempts failed; ``dropped``: how many notifications were given up; ``waiting``: how many are to be sent, and
    ``oldest_ns``: since when the oldest one.
    """

    name: str
    since_ns: int
    looked_ns: int
    failed: int
    dropped: int
    waiting: int = 0
    oldest_ns: int | None = None

    def untold_s(self, now_ns: int) -> float:
        """Return how long (s) the oldest notification has waited, or no process has looked for new ones."""
        unlooked_s = (now_ns - self.looked_ns) / 1e9
        waited_s = 0.0 if self.oldest_ns is None else (now_ns - self.oldest_ns) / 1e9
        return max(waited_s, unlooked_s if unlooked_s > LOOKED_S else 0.0)


@dataclass(frozen=True, slots=True)
class Interest:
    """Which incidents a receiver is told of; ``clusters`` empty: of all. ``shadow``: clusters that alert nobody."""

    receiver: str
    severities: frozenset[str]
    clusters: frozenset[str] = frozenset()
    drills: bool = False
    shadow: frozenset[str] = frozenset()

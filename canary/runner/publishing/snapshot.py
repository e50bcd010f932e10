"""What a ledger's snapshot holds: the tracker's state, what the store does not have yet, and how much it has."""

import base64
from collections.abc import Iterable
from typing import NamedTuple

import orjson

from canary.anomalies.online import Tracker
from canary.anomalies.online.codec import dumps, loads
from canary.anomalies.violation import Violation


class Sealed(NamedTuple):
    """What a snapshot holds.

    ``ended`` are the conditions whose end the store does not have yet; ``shown`` is the ordinal of the last view that
    the store has had, 0 for none: it had every violation of the facts before.
    """

    tracker: Tracker
    undelivered: list[Violation]
    ended: list[Violation]
    shown: int


def seal(tracker: Tracker, undelivered: Iterable[Violation], ended: Iterable[Violation] = (), shown: int = 0) -> bytes:
    """Return one snapshot of all (see Sealed)."""
    return orjson.dumps(
        {
            "version": 1,
            "tracker": base64.b64encode(tracker.dump()).decode(),
            "undelivered": [dumps(violation).decode() for violation in undelivered],
            "ended": [dumps(violation).decode() for violation in ended],
            "shown": shown,
        }
    )


def unseal(snapshot: bytes | None) -> Sealed:
    """Return what :func:`seal` was given; for None an empty tracker.

    Raises:
        ValueError: these bytes are not a snapshot, or one of another version.
    """
    if snapshot is None:
        return Sealed(Tracker(), [], [], 0)
    content = orjson.loads(snapshot)
    if content.get("version") != 1:
        raise ValueError(f"a snapshot of version {content.get('version')}: it was written by another version of canary")
    tracker = Tracker.load(base64.b64decode(content["tracker"]))
    undelivered, ended = (
        [loads(Violation, text.encode()) for text in content.get(name, ())] for name in ("undelivered", "ended")
    )
    return Sealed(tracker, undelivered, ended, content.get("shown", 0))  # which older snapshots lack

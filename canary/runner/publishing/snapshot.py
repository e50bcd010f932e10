"""What a ledger's snapshot holds: the tracker's state, and what was found but has not reached the store yet."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import orjson

from canary.anomalies.online import Tracker
from canary.anomalies.online.codec import dumps, loads
from canary.anomalies.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable


def seal(tracker: Tracker, undelivered: Iterable[Violation], ended: Iterable[Violation] = ()) -> bytes:
    """Return all as one snapshot; ``ended`` are the conditions whose end the store does not know yet."""
    return orjson.dumps(
        {
            "version": 1,
            "tracker": base64.b64encode(tracker.dump()).decode(),
            "undelivered": [dumps(violation).decode() for violation in undelivered],
            "ended": [dumps(violation).decode() for violation in ended],
        }
    )


def unseal(snapshot: bytes | None) -> tuple[Tracker, list[Violation], list[Violation]]:
    """Return what :func:`seal` was given: tracker, undelivered, ended; an empty tracker for None.

    Raises:
        ValueError: the snapshot is of another version, or none.
    """
    if snapshot is None:
        return Tracker(), [], []
    content = orjson.loads(snapshot)
    if content.get("version") != 1:
        raise ValueError(f"a snapshot of version {content.get('version')}: it was written by another version of canary")
    tracker = Tracker.load(base64.b64decode(content["tracker"]))
    undelivered, ended = (
        [loads(Violation, text.encode()) for text in content.get(name, ())] for name in ("undelivered", "ended")
    )
    return tracker, undelivered, ended

"""What a ledger's snapshot holds: the tracker's state, and the violations that the store does not have yet."""

import base64
from collections.abc import Iterable

import orjson

from canary.anomalies.online import Tracker
from canary.anomalies.online.codec import dumps, loads
from canary.anomalies.violation import Violation


def seal(tracker: Tracker, undelivered: Iterable[Violation], ended: Iterable[Violation] = ()) -> bytes:
    """Return one snapshot of all; ``ended`` are the conditions whose end the store does not have yet."""
    return orjson.dumps(
        {
            "version": 1,
            "tracker": base64.b64encode(tracker.dump()).decode(),
            "undelivered": [dumps(violation).decode() for violation in undelivered],
            "ended": [dumps(violation).decode() for violation in ended],
        }
    )


def unseal(snapshot: bytes | None) -> tuple[Tracker, list[Violation], list[Violation]]:
    """Return the tracker, undelivered and ended of :func:`seal`; for None an empty tracker.

    Raises:
        ValueError: these bytes are not a snapshot, or one of another version.
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

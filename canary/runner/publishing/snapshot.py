"""What a ledger's snapshot holds: the tracker's state, what the store does not have yet, and how much it has.

It begins with ``CANARY``, a 0 byte, its version (2) as one byte, and a length (8 bytes, little-endian): that of the
JSON document which follows, compressed by Zstandard. Version 1 was JSON, with the tracker's own in base64 in it.
"""

import base64
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson
import pyarrow as pa

from canary.anomalies.online import Tracker
from canary.anomalies.online.codec import dumps, loads
from canary.anomalies.online.state import State
from canary.anomalies.violation import Violation

_HEAD = struct.Struct("<7sBQ")
_MAGIC, _VERSION = b"CANARY\0", 2


class Sealed(NamedTuple):
    """What a snapshot holds.

    ``ended`` are the conditions whose end the store does not have yet; ``shown`` is the ordinal of the last view that
    the store has had, 0 for none: it had every violation of the facts before.
    """

    tracker: Tracker
    undelivered: list[Violation]
    ended: list[Violation]
    shown: int


@dataclass(frozen=True, slots=True)
class _Content:
    tracker: State
    undelivered: list[Violation] = field(default_factory=list)
    ended: list[Violation] = field(default_factory=list)
    shown: int = 0


def seal(tracker: Tracker, undelivered: Iterable[Violation], ended: Iterable[Violation] = (), shown: int = 0) -> bytes:
    """Return one snapshot of all (see Sealed)."""
    document = dumps(_Content(tracker.state, list(undelivered), list(ended), shown))
    compressed: bytes = pa.compress(document, codec="zstd", asbytes=True)
    return _HEAD.pack(_MAGIC, _VERSION, len(document)) + compressed


def unseal(snapshot: bytes | None) -> Sealed:
    """Return what :func:`seal` was given; for None an empty tracker.

    Raises:
        ValueError: these bytes are not a snapshot, or one of another version.
    """
    if snapshot is None:
        return Sealed(Tracker(), [], [], 0)
    if snapshot[:1] == b"{":
        return _unseal_first(snapshot)
    if len(snapshot) < _HEAD.size or not snapshot.startswith(_MAGIC):
        raise ValueError("not a snapshot")
    _, version, size = _HEAD.unpack_from(snapshot)
    if version != _VERSION:
        raise _another(version)
    try:
        document = pa.decompress(snapshot[_HEAD.size :], size, codec="zstd", asbytes=True)
    except OSError as error:
        raise ValueError(f"not a snapshot: {error}") from error
    content = loads(_Content, document)
    return Sealed(Tracker(content.tracker), content.undelivered, content.ended, content.shown)


def _unseal_first(snapshot: bytes) -> Sealed:
    """Return what a snapshot of version 1 holds."""
    content = orjson.loads(snapshot)
    if content.get("version") != 1:
        raise _another(content.get("version"))
    tracker = Tracker.load(base64.b64decode(content["tracker"]))
    undelivered, ended = (
        [loads(Violation, text.encode()) for text in content.get(name, ())] for name in ("undelivered", "ended")
    )
    return Sealed(tracker, undelivered, ended, content.get("shown", 0))  # which older ones lack


def _another(version: object) -> ValueError:
    return ValueError(f"a snapshot of version {version}: it was written by another version of canary")

"""Violations joined to ranges: what is gone from neighbouring offsets of a log is one range.

Example: 40 violations of one record each, at offsets 0 to 39, are one range of 40 records.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from sqlalchemy import func

from storage.store.models import VIOLATIONS

_NONE: Final = -1
"""Instead of an offset that is not known."""
last: Final = func.coalesce(VIOLATIONS.c.last_offset, VIOLATIONS.c.offset)
"""The last offset that a violation is about."""
LOG: Final = ("cluster", "topic", "topic_id", "partition", "kind", "mode")
"""Only violations of which all of this is the same are joined."""
COLUMNS: Final = (
    *(func.coalesce(VIOLATIONS.c[name], "") if name == "mode" else VIOLATIONS.c[name] for name in LOG),
    func.coalesce(VIOLATIONS.c.offset, _NONE),
    VIOLATIONS.c.id,
    func.coalesce(last, _NONE),
    VIOLATIONS.c.record_count,
    VIOLATIONS.c.first_seen_ns,
)
"""What is to be read of the violations that are joined."""


class Joined(NamedTuple):
    """A range: the ids of its first and last violation, and what all of them have together."""

    first_id: str
    last_id: str
    violations: int
    records: int
    first_seen_ns: int


def joined(rows: Iterable[Iterable[Any]]) -> list[Joined]:
    """Return the ranges of violations (rows of COLUMNS), in the order of logs and offsets.

    A violation that begins where another one ends, or one offset later, is of its range.
    """
    ranges: list[Joined] = []
    log, end = None, _NONE
    for *of, offset, this, last, records, seen_ns in sorted(map(tuple, rows)):
        if of == log and end != _NONE and end <= offset <= end + 1:
            first_id, _, violations, before, first_ns = ranges[-1]
            ranges[-1] = Joined(first_id, this, violations + 1, before + records, min(first_ns, seen_ns))
        else:
            ranges.append(Joined(this, this, 1, records, seen_ns))
        log, end = of, last
    return ranges

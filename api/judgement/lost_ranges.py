"""Which writes an incident lost: one range for all that is gone from neighbouring offsets. Pure.

Example: 40 violations of one record each, at offsets 0 to 39, are one range: "40 writes, offsets 0 to 39, acknowledged
12:01:02 to 12:01:06".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from api.shapes import clock
from canary.anomalies.policy import LOSSES, WRITES_LOST
from canary.probe.identity import Identity
from storage.store.values import StoredViolation


@dataclass(frozen=True, slots=True)
class LostRange:
    """Neighbouring offsets whose records are gone, and the violations that say so, in the order of offsets.

    ``times``: when the first and the last of them were acknowledged or sent (``timed`` says which), in ns since the
    epoch; None while that is not known.
    """

    found: tuple[StoredViolation, ...]
    times: tuple[int, int] | None = None
    timed: str = ""

    @property
    def first(self) -> StoredViolation:
        """The violation of the lowest offset."""
        return self.found[0]

    @property
    def last_offset(self) -> int | None:
        """The highest offset; None: not known."""
        return _end(self.found[-1])

    @property
    def records(self) -> int:
        """How many records are gone."""
        return sum(one.count for one in self.found)

    @property
    def sentence(self) -> str:
        """The range for people; another kind of a loss says by itself what it took."""
        if self.first.kind != WRITES_LOST and len(self.found) == 1:
            return self.first.summary
        nouns = "write" if self.first.kind == WRITES_LOST else "record"
        number = f"{self.records:,} {nouns}{'' if self.records == 1 else 's'}"
        first, last = self.first.offset, self.last_offset
        where = "at an unknown offset" if first is None else f"offset {first:,}"
        if first is not None and last != first:
            where = f"offsets {first:,} to {last:,}"
        seen_ns = min(one.first_seen_ns for one in self.found)
        if self.times is None:
            return f"{number}, {where}, acknowledged before {clock(seen_ns, seen_ns)}"
        begin, end = (clock(at_ns, seen_ns) for at_ns in self.times)
        return f"{number}, {where}, {self.timed} {begin}{'' if begin == end else f' to {end}'}"


def losses(violations: Iterable[StoredViolation]) -> list[StoredViolation]:
    """Return those that say what is gone.

    Lost writes say it record by record; only where there are none, the other kinds of a loss do (a truncation, for
    example, has one place for all that it took).
    """
    found = [one for one in violations if one.kind in LOSSES and one.partition is not None]
    return [one for one in found if one.kind == WRITES_LOST] or found


def lost_ranges(violations: Iterable[StoredViolation]) -> list[LostRange]:
    """Return what violations say is gone, the largest range first."""
    ranges: list[LostRange] = []
    for one in sorted(losses(violations), key=lambda row: (*_log_of(row), -1 if row.offset is None else row.offset)):
        last = ranges[-1] if ranges else None
        if last is not None and _log_of(last.first) == _log_of(one) and _goes_on(last, one):
            ranges[-1] = replace(last, found=(*last.found, one))
        else:
            ranges.append(LostRange((one,)))
    return sorted(ranges, key=lambda one: -one.records)


def timed(
    lost: LostRange,
    acknowledged: Callable[[Identity], int | None],
    evidence: Mapping[str, Mapping[str, object]],
) -> LostRange:
    """Return the range with its times: by the probe log's acknowledgements, else by what the runner remembered.

    ``acknowledged`` returns when a probe was acknowledged (ns), None: not known. ``evidence``: by the violation's id.
    """
    first, last = lost.first.identity, lost.found[-1].last_identity
    known = [acknowledged(one) for one in (first, last) if one is not None]
    acked = [at_ns for at_ns in known if at_ns is not None]
    if len(acked) == 2:
        return replace(lost, times=(min(acked), max(acked)), timed="acknowledged")
    sent = [at_ns for one in (lost.first, lost.found[-1]) for at_ns in _sent(evidence.get(one.id, {}))]
    if sent:
        return replace(lost, times=(min(sent), max(sent)), timed="sent")
    return lost


def _sent(evidence: Mapping[str, object]) -> Sequence[int]:
    found = evidence.get("sent_ns")
    return [at_ns for at_ns in found if isinstance(at_ns, int)] if isinstance(found, list) else ()


def _log_of(row: StoredViolation) -> tuple[str, str, int, str, str]:
    return row.topic, row.topic_id, row.partition or 0, row.kind, row.mode or ""


def _goes_on(before: LostRange, after: StoredViolation) -> bool:
    end = before.last_offset
    return end is not None and after.offset is not None and after.offset in {end, end + 1}


def _end(row: StoredViolation) -> int | None:
    return row.offset if row.last_offset is None else row.last_offset

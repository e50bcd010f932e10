"""Which writes an incident lost: one range for all that is gone from neighbouring offsets. Pure.

Example: 40 violations of one record each, at offsets 0 to 39, are one range: "40 writes, offsets 0 to 39, acknowledged
12:01:02 to 12:01:06".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from api.shapes import clock
from canary.anomalies.policy import LOSSES, WRITES_LOST
from canary.probe.identity import Identity
from storage.store.values import StoredViolation, ViolationRange


@dataclass(frozen=True, slots=True)
class LostRange:
    """Neighbouring offsets whose records are gone, and the violations ``found`` that say so.

    ``times``: when the first and the last of them were acknowledged or sent (``timed`` says which), in ns since the
    epoch; None while that is not known.
    """

    found: ViolationRange
    times: tuple[int, int] | None = None
    timed: str = ""

    @property
    def first(self) -> StoredViolation:
        """The violation of the lowest offset."""
        return self.found.first

    @property
    def last_offset(self) -> int | None:
        """The highest offset; None: not known."""
        last = self.found.last
        return last.offset if last.last_offset is None else last.last_offset

    @property
    def records(self) -> int:
        """How many records are gone."""
        return self.found.records

    @property
    def sentence(self) -> str:
        """The range for people; another kind of a loss says by itself what it took."""
        if self.first.kind != WRITES_LOST and self.found.violations == 1:
            return self.first.summary
        number = gone(self.first.kind, self.records)
        first, last = self.first.offset, self.last_offset
        where = "at an unknown offset" if first is None else f"offset {first:,}"
        if first is not None and last != first:
            where = f"offsets {first:,} to {last:,}"
        seen_ns = self.found.first_seen_ns
        if self.times is None:
            return f"{number}, {where}, acknowledged before {clock(seen_ns, seen_ns)}"
        begin, end = (clock(at_ns, seen_ns) for at_ns in self.times)
        return f"{number}, {where}, {self.timed} {begin}{'' if begin == end else f' to {end}'}"


def gone(kind: str, records: int) -> str:
    """Return how many records of a kind of loss are gone: "1 write", "200,000 writes"; "20 records" of another kind."""
    noun = "write" if kind == WRITES_LOST else "record"
    return f"{records:,} {noun}{'' if records == 1 else 's'}"


def losses(violations: Iterable[StoredViolation]) -> list[StoredViolation]:
    """Return those that say what is gone.

    Lost writes say it record by record; only where there are none, the other kinds of a loss do (a truncation, for
    example, has one place for all that it took).
    """
    found = [one for one in violations if one.kind in LOSSES and one.partition is not None]
    return [one for one in found if one.kind == WRITES_LOST] or found


def timed(lost: LostRange, acknowledged: Callable[[Identity], int | None]) -> LostRange:
    """Return the range with its times: by the probe log's acknowledgements, else by what the runner remembered.

    ``acknowledged`` returns when a probe was acknowledged (ns), None: not known.
    """
    first, last = lost.first.identity, lost.found.last.last_identity
    known = [acknowledged(one) for one in (first, last) if one is not None]
    acked = [at_ns for at_ns in known if at_ns is not None]
    if len(acked) == 2:
        return replace(lost, times=(min(acked), max(acked)), timed="acknowledged")
    sent = [at_ns for one in (lost.first, lost.found.last) for at_ns in _sent(one.evidence)]
    if sent:
        return replace(lost, times=(min(sent), max(sent)), timed="sent")
    return lost


def _sent(evidence: Mapping[str, object]) -> Sequence[int]:
    found = evidence.get("sent_ns")
    return [at_ns for at_ns in found if isinstance(at_ns, int)] if isinstance(found, list) else ()

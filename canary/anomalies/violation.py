"""What the engines report: violations, and requests to read a range again."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, Self

import orjson

from canary.anomalies.anomaly import Severity
from canary.facts import Reported
from canary.probe.identity import Identity

SENT_AGAIN = "sent_again_under_a_new_producer_epoch"
"""In the evidence of a duplicate that the client made; another engine that finds it does not raise its severity."""

SightedBy = Literal["online", "scrub", "reconcile", "watch"]
MOST_RUNS = 1000
"""Runs of one violation at most; more become several violations."""


class Records(NamedTuple):
    """A run: ``size`` records at consecutive offsets, of consecutive sequences from ``identity`` (None: no probe).

    ``offset`` is None only for a single record whose offset is not known.
    """

    offset: int | None
    size: int
    identity: Identity | None

    def part(self, skip: int, size: int) -> Self:
        """Return ``size`` of these records, without the first ``skip``."""
        offset = None if self.offset is None else self.offset + skip
        return self._replace(offset=offset, size=size, identity=following(self.identity, skip))


def following(identity: Identity | None, n: int) -> Identity | None:
    """Return the identity that the same producer gives ``n`` probes later in the same partition."""
    return None if identity is None else identity._replace(sequence=identity.sequence + n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken promise, or one that was broken for a contiguous range of records; with its evidence.

    ``kind`` is a name of the catalogue. ``topic_id`` is the incarnation ("" where the cluster has none). The place
    (``partition``, ``offset``, ``identity``, ``leader_epoch``) follows CONTRACTS "Place of a violation"; None where the
    kind has none. ``leader_epoch`` tells two events at one offset apart; None where it is not known. It happened after
    ``happened_after_ns``, when its place was last known to be whole (None: that is not known), and before
    ``happened_before_ns`` (None: ``at_ns``, when it was found).
    Of a range it is the first record's, and ``records`` has all of them, ascending; a single one has no ``records``.
    ``evidence`` holds only JSON values; what ends with _ns in it is a time.
    Times in ns since the epoch. ``key`` identifies it for ever.
    """

    kind: str
    severity: Severity
    topic: str = ""
    topic_id: str = ""
    partition: int | None = None
    offset: int | None = None
    identity: Identity | None = None
    leader_epoch: int | None = None
    mode: str | None = None
    at_ns: int
    by: SightedBy
    summary: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    records: tuple[Records, ...] = ()
    happened_after_ns: int | None = None
    happened_before_ns: int | None = None

    @property
    def found_ns(self) -> int:
        """The time before which it happened."""
        return self.at_ns if self.happened_before_ns is None else self.happened_before_ns

    def since(self, after_ns: int | None, before_ns: int | None = None) -> Self:
        """Return it as what happened after a moment, 0 or None: not known; and before another, None: when it was found.

        A moment after the end is of a clock that was set back, and tells nothing.
        """
        known = after_ns if after_ns and after_ns <= (before_ns or self.at_ns) else None
        return replace(self, happened_after_ns=known, happened_before_ns=before_ns)

    def retimed(self, clock: Callable[[int], int]) -> Self:
        """Return it with all times, also those of its evidence, by another clock: it returns what it said then."""
        happened = (self.happened_after_ns, self.happened_before_ns)
        after_ns, before_ns = (None if at_ns is None else clock(at_ns) for at_ns in happened)
        found = replace(self, at_ns=clock(self.at_ns), evidence=_retimed(clock, self.evidence))
        return found.since(after_ns, before_ns)

    @property
    def runs(self) -> tuple[Records, ...]:
        """All of its records; one run of one for a single record, or for none."""
        return self.records or (Records(self.offset, 1, self.identity),)

    @property
    def count(self) -> int:
        """How many records it is about, which is what metrics and totals count; at least 1."""
        return sum(run.size for run in self.records) or 1

    @property
    def last_offset(self) -> int | None:
        """The last record's offset; ``offset`` itself for a single record."""
        last = self.runs[-1]
        return None if last.offset is None else last.offset + last.size - 1

    @property
    def last_identity(self) -> Identity | None:
        """The last record's identity; ``identity`` itself for a single record."""
        last = self.runs[-1]
        return following(last.identity, last.size - 1)

    @property
    def sentence(self) -> str:
        """The summary, with the place of a range, which a summary never has."""
        if self.count == 1:
            return self.summary
        return f"{self.summary} ({self.count:,} records, offsets {self.offset} to {self.last_offset})"

    def rehearsed(self, kind: str, drill_id: str) -> Self:
        """Return it as what a drill found: of another kind, and marked as a drill in its summary and evidence."""
        evidence = {"drill": drill_id, "found": self.kind, **self.evidence}
        summary = f"This is a drill, nothing is wrong. Found: {self.kind}: {self.summary}"
        return replace(self, kind=kind, severity="critical", summary=summary, evidence=evidence)

    def below(self, end: int) -> int:
        """Return how many of its records have an offset below ``end``."""
        return sum(min(max(end - run.offset, 0), run.size) for run in self.runs if run.offset is not None)

    def joined(self, run: Records) -> Self | None:
        """Return it with ``run`` at its end, None if that doesn't go on there or the runs would be too many."""
        last = self.runs[-1]
        if last.offset is None or run.offset != last.offset + last.size:
            return None
        if run.identity == following(last.identity, last.size):
            return self.about((*self.runs[:-1], last._replace(size=last.size + run.size)))
        return self.about((*self.runs, run)) if len(self.runs) < MOST_RUNS else None

    def about(self, runs: Sequence[Records]) -> Self:
        """Return the same of these records only; the first run has the first of them."""
        first = runs[0]
        single = len(runs) == 1 and first.size == 1
        return replace(self, offset=first.offset, identity=first.identity, records=() if single else tuple(runs))

    def key(self, cluster: str) -> str:
        """Return the id (32 hex): a hash of kind, cluster, incarnation, place, and a range's runs.

        Two ranges may begin and end with the same records, and have others between. Without a leader epoch the id is
        that of versions that knew none.
        """
        place: tuple[object, ...] = (
            self.kind,
            cluster,
            self.topic,
            self.topic_id,
            self.partition,
            self.offset,
            self.identity and tuple(self.identity),
        )
        if self.records:
            others = ((run.offset, run.size, run.identity and tuple(run.identity)) for run in self.records[1:])
            place += (self.last_offset, *others)
        if self.leader_epoch is not None:
            place += (("leader_epoch", self.leader_epoch),)
        return hashlib.blake2b(repr(place).encode(), digest_size=16).hexdigest()


def reported(part: str, found: Sequence[Violation], ended: Sequence[Violation] = ()) -> list[Reported]:
    """Return what a part has found, and which conditions ended, as facts: so the ledger keeps it before it is filed."""
    return [
        Reported(one.at_ns, part, orjson.dumps(one, tuple, orjson.OPT_NON_STR_KEYS).decode(), over=over)
        for over, violations in ((False, found), (True, ended))
        for one in violations
    ]


def violation_of(fact: Reported) -> Violation:
    """Return the violation that a part has found, or that has ended. Fields of a later version are left out."""
    told = orjson.loads(fact.violation)
    known = {one.name: told[one.name] for one in fields(Violation) if one.name in told}
    runs = (Records(offset, size, _identity(who)) for offset, size, who in told["records"])
    return Violation(**known | {"identity": _identity(told["identity"]), "records": tuple(runs)})


def _identity(numbers: Sequence[int] | None) -> Identity | None:
    return None if numbers is None else Identity(*numbers)


def _retimed(clock: Callable[[int], int], evidence: Any, name: str = "") -> Any:
    match evidence:
        case dict():
            return {name: _retimed(clock, value, name) for name, value in evidence.items()}
        case list():
            return [_retimed(clock, value, name) for value in evidence]
        case int() if name.endswith("_ns"):
            return clock(evidence)
    return evidence


@dataclass(frozen=True, slots=True)
class RereadRequest:
    """A request to read [start, end) of a partition with a fresh client; Polled, Refused, RereadEnded facts answer it.

    ``request_id`` is given by the tracker and stable under replay. ``reason`` is for people: confirm, epoch, log start.
    """

    request_id: int
    topic: str
    partition: int
    isolation: str
    start: int
    end: int
    reason: str

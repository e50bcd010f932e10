"""RECONCILIATION.md once more, in plain Python dictionaries: slow, obvious, and knowing nothing of the kernel.

Rows are dicts with the columns of CONTRACTS; times are us since the epoch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Identity = tuple[int, int, int]
"""Producer, generation and sequence of a probe."""
RC, RU = "read_committed", "read_uncommitted"
RANK = {"acked": 0, "failed": 1, "indeterminate": 2}
FIVE_MINUTES = 300_000_000
NEVER = 1 << 62


@dataclass
class Night:
    """The five tables."""

    probes: list[Row] = field(default_factory=list)
    transactions: list[Row] = field(default_factory=list)
    polls: list[Row] = field(default_factory=list)
    records: list[Row] = field(default_factory=list)
    bounds: list[Row] = field(default_factory=list)


def place(row: Row) -> tuple[str, str, int]:
    """Return the cluster, topic and partition of a row."""
    return row["cluster"], row["topic"], row["partition"]


def who(row: Row) -> Identity:
    """Return whose probe a row is about."""
    return row["producer_id"], row["generation"], row["sequence"]


def verdicts(night: Night) -> dict[str, Any]:
    """Return summary, anomalies, verdicts and the rest, as the job should."""
    out = Outcome()
    ids: dict[tuple[str, str], set[str]] = defaultdict(set)
    bounds: dict[tuple[str, str, int], dict[str, Row]] = defaultdict(dict)
    for row in night.bounds:
        bounds[place(row)][row["isolation"]] = row
        if row.get("topic_id"):
            ids[row["cluster"], row["topic"]].add(row["topic_id"])
    outcomes: dict[tuple[str, int, int, int], str] = {}
    for row in night.transactions:
        key = (row["cluster"], row["producer_id"], row["generation"], row["transaction_id"])
        order = ["committed", "aborted", "indeterminate"]
        if key not in outcomes or order.index(row["outcome"]) < order.index(outcomes[key]):
            outcomes[key] = row["outcome"]
    generations: dict[tuple[str, int], set[int]] = defaultdict(set)
    for row in night.probes:
        generations[row["cluster"], row["producer_id"]].add(row["generation"])

    def foreign(row: Row) -> bool:
        known = ids[row["cluster"], row["topic"]]
        return bool(known) and row.get("topic_id") not in {None, *known}

    made_anew = {(row["cluster"], row["topic"]) for row in night.probes if foreign(row)}

    def here(row: Row) -> bool:
        acked_or_polled = row.get("outcome") == "acked" or "consumer_id" in row
        unknown = row.get("topic_id") is None and acked_or_polled and (row["cluster"], row["topic"]) in made_anew
        return not foreign(row) and not unknown

    places = {place(row) for table in (night.probes, night.records, night.polls) for row in table}
    for spot in sorted(places):
        judge = PartitionJudge(out, spot, bounds.get(spot), Known(here, outcomes, generations))
        judge.take(
            [row for row in night.probes if place(row) == spot],
            [row for row in night.polls if place(row) == spot and here(row)],
            [row for row in night.records if place(row) == spot and here(row)],
        )
        judge.sent()
        if bounds.get(spot) is not None:
            judge.strangers()
    out.fracture()
    return out.result()


@dataclass
class Outcome:
    """What the night says, as it is found."""

    table: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("attempted", "acked", "survivors", "acked_lost", "unacked_found"), 0)
    )
    anomalies: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    verdicts: dict[tuple[Any, ...], tuple[str, int | None]] = field(default_factory=dict)
    unverified: int = 0
    voided: int = 0
    unjudged: list[tuple[str, str, int]] = field(default_factory=list)
    missing: dict[tuple[Any, ...], str] = field(default_factory=dict)
    proven: set[tuple[Any, ...]] = field(default_factory=set)

    def fracture(self) -> None:
        """Count transactions of which only a part is there."""
        for transaction, state in self.missing.items():
            if state == "committed" or transaction in self.proven:
                self.anomalies["fractured-transaction"] += 1

    def result(self) -> dict[str, Any]:
        """Return it in the words of the job."""
        counts: dict[str, int] = defaultdict(int)
        for verdict, _ in self.verdicts.values():
            counts[verdict] += 1
        return {
            "table": self.table,
            "anomalies": {name: number for name, number in sorted(self.anomalies.items()) if number},
            "counts": dict(sorted(counts.items())),
            "verdicts": {key: value for key, value in self.verdicts.items() if value[0] != "survived"},
            "unverified": self.unverified,
            "voided": self.voided,
            "unjudged": sorted(self.unjudged),
        }


@dataclass
class Known:
    """What is known of all partitions: which rows are of this incarnation, how transactions ended, who ever began."""

    here: Callable[[Row], bool]
    outcomes: dict[tuple[str, int, int, int], str]
    generations: dict[tuple[str, int], set[int]]


@dataclass
class Standing:
    """Rule 4: what may explain that a probe is not found where it should stand."""

    expired: bool = False
    early: bool = False
    unexplained: bool = False
    pending: bool = False


class PartitionJudge:
    """Every rule for one partition, in the order of the text."""

    def __init__(self, out: Outcome, spot: tuple[str, str, int], bounds: dict[str, Row] | None, known: Known) -> None:
        self.out = out
        self.spot = spot
        self.cluster = spot[0]
        self.known = known
        self.bounds = bounds
        self.rc: Row = bounds[RC] if bounds else {"earliest_offset": 0, "end_offset": 0}
        self.ru = bounds.get(RU) if bounds else None
        self.start, self.end = self.rc["earliest_offset"], self.rc["end_offset"]
        self.ru_start: int = self.ru["earliest_offset"] if self.ru else 0
        self.ru_end: int = self.ru["end_offset"] if self.ru else 0
        self.high = max(self.end, self.ru_end)
        self.below: dict[Identity, set[int]] = defaultdict(set)
        self.committed: dict[Identity, set[int]] = defaultdict(set)
        self.held: dict[Identity, set[int]] = defaultdict(set)
        self.standing: dict[Identity, set[int]] = defaultdict(set)
        self.polled: dict[Identity, set[int]] = defaultdict(set)
        self.claims: dict[int, set[Identity]] = defaultdict(set)
        self.at: dict[int, set[Identity]] = defaultdict(set)
        self.damaged: set[int] = set()
        self.chosen: dict[Identity, Row] = {}
        """The one row that counts of each probe."""
        self.extents: dict[tuple[int, int], tuple[int, int]] = {}
        self.offsets: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)

    def transaction(self, row: Row) -> str | None:
        """Return how the transaction of a probe ended, None if it is in none."""
        if row["transaction_id"] is None:
            return None
        name = (self.cluster, row["producer_id"], row["generation"], row["transaction_id"])
        return self.known.outcomes.get(name, "indeterminate")

    def promised(self, row: Row) -> bool:
        """Return whether a probe was acknowledged, and committed if it is in a transaction."""
        return row["outcome"] == "acked" and self.transaction(row) in (None, "committed")

    def take(self, probes: list[Row], polls: list[Row], records: list[Row]) -> None:
        """Take in all rows."""
        for row in records if self.bounds else []:
            self._take_record(row)
        self.out.anomalies["corrupt"] += len(self.damaged)
        for row in polls:
            self.claims[row["offset"]].add(who(row))
            if row["isolation"] == RC:
                self.polled[who(row)].add(row["offset"])
        for row in probes:
            if self.promised(row) and self.known.here(row) and row["offset"] is not None:
                self.claims[row["offset"]].add(who(row))
        self.out.anomalies["inconsistent-offsets"] += sum(len(owners) > 1 for owners in self.claims.values())
        self._choose(probes)

    def _take_record(self, row: Row) -> None:
        offset = row["offset"]
        if row["isolation"] == RC and row["valid"] and row["producer_id"] is not None and offset < self.start:
            self.below[who(row)].add(offset)
        if row["isolation"] == RC:
            inside = self.start <= offset < self.end
        else:
            inside = self.ru is not None and self.ru_start <= offset < self.ru_end
        if not inside:
            return
        if not row["valid"]:
            self.damaged.add(offset)
        elif row["producer_id"] is not None:
            self.standing[who(row)].add(offset)
            self.claims[offset].add(who(row))
            self.at[offset].add(who(row))
            if row["isolation"] == RC:
                self.committed[who(row)].add(offset)
            elif offset >= self.end:
                self.held[who(row)].add(offset)

    def _choose(self, probes: list[Row]) -> None:
        """Rule 15: of several rows of a probe one counts."""
        grouped: dict[Identity, list[Row]] = defaultdict(list)
        for row in probes:
            grouped[who(row)].append(row)

        def preference(row: Row) -> tuple[int, int, int, bool]:
            acked_at = row["acked_at"] if row["acked_at"] is not None and row["outcome"] == "acked" else NEVER
            offset = NEVER if row["offset"] is None else row["offset"]
            return RANK[row["outcome"]], acked_at, offset, not self.known.here(row)

        self.chosen = {identity: min(rows, key=preference) for identity, rows in grouped.items()}
        for row in probes:
            if row["offset"] is not None and self.known.here(row):
                known = self.offsets[row["producer_id"], row["generation"]]
                known[row["sequence"]] = min(known.get(row["sequence"], NEVER), row["offset"])
        for producer, generation, sequence in grouped:
            low, top = self.extents.get((producer, generation), (sequence, sequence))
            self.extents[producer, generation] = min(low, sequence), max(top, sequence)

    def sent(self) -> None:
        """Judge every probe that has a row."""
        if self.bounds is None and any(self.promised(row) and self.known.here(row) for row in self.chosen.values()):
            self.out.unjudged.append(self.spot)
        for identity, row in self.chosen.items():
            if not self.known.here(row):
                self.out.verdicts[*self.spot, *identity] = "other-incarnation", row["offset"]
                self.out.voided += self.promised(row)
            elif self.bounds is None:
                if self._refused(row) and self.polled[identity]:
                    self.out.verdicts[*self.spot, *identity] = "aborted-read", row["offset"]
                    self.out.anomalies["G1a"] += 1
            else:
                self._judge(identity, row)

    def _refused(self, row: Row) -> bool:
        return row["outcome"] == "failed" or self.transaction(row) == "aborted"

    def _places(self, identity: Identity, row: Row) -> set[int]:
        """Return where a probe is found."""
        places = set(self.committed[identity])
        if self.promised(row) and self.transaction(row) is None:
            places |= self.held[identity]
        return places

    def _judge(self, identity: Identity, row: Row) -> None:
        out, offset, kept = self.out, row["offset"], self.promised(row)
        stands = self._stands(identity, row)
        verdict = self._verdict(identity, row, stands)
        copies = len(self.standing[identity]) > 1
        found = bool(self._places(identity, row))
        within = self.committed[identity] or self.held[identity] or (self.standing[identity] if copies else ())
        out.verdicts[*self.spot, *identity] = verdict, min(within, default=None) if offset is None else offset
        out.anomalies["duplicate"] += copies
        out.anomalies["G1a"] += verdict == "aborted-read"
        for kind in ("early-expiry", "unexplained-expiry"):
            out.anomalies[kind] += verdict == kind
        seen = bool(self.committed[identity]) or bool(self.polled[identity])
        if kept and stands.expired and not (seen or self.below[identity]):
            out.unverified += 1
        if not stands.expired and not stands.pending:
            bad = verdict in ("early-expiry", "corrupt")
            out.table["attempted"] += 1
            out.table["acked"] += kept
            out.table["survivors"] += found and not bad
            out.table["acked_lost"] += kept and (not found or bad)
            out.table["unacked_found"] += not kept and found
            out.anomalies["lost-write"] += (kept and not found and not bad) or verdict == "lost"
        state = self.transaction(row)
        if state in ("committed", "indeterminate"):
            name = (self.cluster, identity[0], identity[1], row["transaction_id"])
            if found:
                out.proven.add(name)
            elif offset is not None and self.start <= offset < self.end:
                out.missing[name] = state

    def _stands(self, identity: Identity, row: Row) -> Standing:
        """Rule 4: where it stands."""
        kept, refused, state = self.promised(row), self._refused(row), self.transaction(row)
        held_alone = bool(self.held[identity]) and not self.committed[identity]
        unknown = not kept and not refused and state is None and held_alone
        if row["offset"] is not None:
            stands, gone = self._stands_at(row)
            stands.pending |= unknown and not gone
            return stands
        found = bool(self._places(identity, row))
        within_polls = any(self.start <= one < self.end for one in self.polled[identity])
        if kept and not found and not within_polls:
            mates = self.offsets[identity[0], identity[1]]
            lower = [mates[number] for number in sorted(mates) if number < identity[2]]
            upper = [mates[number] for number in sorted(mates) if number > identity[2]]
            limit = self.high if state is None else self.end
            inside = bool(lower and upper) and all(self.start <= one < limit for one in (lower[-1], upper[0]))
            return Standing(pending=not inside)
        return Standing(pending=unknown)

    def _stands_at(self, row: Row) -> tuple[Standing, bool]:
        """Return how a probe stands whose offset is known, and whether that is below the log's start."""
        rc, ru, offset, kept = self.rc, self.ru, row["offset"], self.promised(row)
        if offset < self.start or (ru is not None and self.end <= offset < self.ru_end and offset < self.ru_start):
            explained = self._explained(row)
            return Standing(
                expired=explained is not False,
                early=kept and explained is False,
                unexplained=kept and explained is None,
            ), True
        if ru is None:
            return Standing(pending=offset >= self.end), False
        if offset >= self.high:
            earlier = min(rc["dumped_at"], ru["dumped_at"])
            old = kept and row["acked_at"] is not None and row["acked_at"] < earlier - FIVE_MINUTES
            return Standing(pending=not old), False
        return Standing(pending=offset >= self.end and self.transaction(row) is not None), False

    def _explained(self, row: Row) -> bool | None:
        """Return whether retention may have removed a probe; None: unknown."""
        ms, most, size, age = (
            self.rc["retention_ms"],
            self.rc["retention_bytes"],
            self.rc.get("size_bytes"),
            self.rc["dumped_at"] - row["sent_at"],
        )
        reasons: list[bool | None] = [None if ms is None else ms >= 0 and age >= ms * 1000 - min(ms * 100, 60_000_000)]
        if most is None or (most >= 0 and size is None):
            reasons.append(None)
        elif most >= 0:
            reasons.append(size >= most / 2)
        return True if True in reasons else None if None in reasons else False

    def _verdict(self, identity: Identity, row: Row, stands: Standing) -> str:
        offset, kept, places = row["offset"], self.promised(row), self._places(identity, row)
        found, polled = bool(places), self.polled[identity]
        within_polls = any(self.start <= one < self.end for one in polled)
        first = [
            (self._refused(row) and bool(self.committed[identity] or polled), "aborted-read"),
            (len(self.standing[identity]) > 1, "duplicate"),
            (stands.early, "early-expiry"),
            (stands.unexplained, "unexplained-expiry"),
            (stands.expired, "expired"),
            (stands.pending, "pending"),
            (kept and found and (offset is None or offset in places), "survived"),
            (kept and offset in self.damaged, "corrupt"),
            (kept and (found or any(other != identity for other in self.at.get(offset, ()))), "moved"),
            (kept or (within_polls and not found and not self._refused(row)), "lost"),
            (found, "unacked-found"),
        ]
        return next((verdict for holds, verdict in first if holds), "unacked-absent")

    def strangers(self) -> None:
        """Judge every probe that was found or polled and has no row."""
        out = self.out
        for identity in {*self.committed, *self.polled} - set(self.chosen):
            if not self.committed.get(identity):
                if any(self.start <= offset < self.end for offset in self.polled[identity]):
                    out.verdicts[*self.spot, *identity] = "lost", None
                    out.anomalies["lost-write"] += 1
                continue
            verdict = self._stranger(*identity)
            if verdict is not None:
                out.verdicts[*self.spot, *identity] = verdict, min(self.committed[identity])
                out.anomalies["phantom"] += verdict == "unexpected"
                out.anomalies["duplicate"] += len(self.standing[identity]) > 1

    def _stranger(self, producer: int, generation: int, sequence: int) -> str | None:
        """Return the verdict on a record of which no row is known, None if it is older than all rows."""
        started = self.known.generations.get((self.cluster, producer), set())
        beyond = "pending" if started and generation == max(started) else "unacked-found"
        if started and generation < min(started):
            return None
        if generation not in started:
            return "unexpected"
        if (producer, generation) not in self.extents:
            return beyond
        first, last = self.extents[producer, generation]
        if sequence < first:
            return None
        return beyond if sequence > last else "unexpected"

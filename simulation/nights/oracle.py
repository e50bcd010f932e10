"""RECONCILIATION.md once more, in plain Python dictionaries: slow, obvious, and knowing nothing of the kernel.

Rows are dicts with the columns of CONTRACTS; times are us since the epoch.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
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
    return row["cluster"], row["topic"], row["partition"]


def who(row: Row) -> tuple[int, int, int]:
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
        one_partition(
            out,
            spot,
            [row for row in night.probes if place(row) == spot],
            [row for row in night.polls if place(row) == spot and here(row)],
            [row for row in night.records if place(row) == spot and here(row)],
            bounds.get(spot),
            here,
            outcomes,
            generations,
        )
    out.fracture()
    return out.result()


@dataclass
class Outcome:
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
        for transaction, state in self.missing.items():
            if state == "committed" or transaction in self.proven:
                self.anomalies["fractured-transaction"] += 1

    def result(self) -> dict[str, Any]:
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


def one_partition(  # noqa: C901, PLR0912, PLR0915  # every rule in one place, in the order of the text
    out: Outcome,
    spot: tuple[str, str, int],
    probes: list[Row],
    polls: list[Row],
    records: list[Row],
    bounds: dict[str, Row] | None,
    here: Any,
    outcomes: dict[tuple[str, int, int, int], str],
    generations: dict[tuple[str, int], set[int]],
) -> None:
    cluster = spot[0]

    def transaction(row: Row) -> str | None:
        if row["transaction_id"] is None:
            return None
        return outcomes.get((cluster, row["producer_id"], row["generation"], row["transaction_id"]), "indeterminate")

    def promised(row: Row) -> bool:
        return row["outcome"] == "acked" and transaction(row) in (None, "committed")

    rc = bounds[RC] if bounds else None
    ru = bounds.get(RU) if bounds else None
    start, end = (rc["earliest_offset"], rc["end_offset"]) if rc else (0, 0)
    ru_start, ru_end = (ru["earliest_offset"], ru["end_offset"]) if ru else (0, 0)
    high = max(end, ru_end)

    below: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    committed: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    held: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    standing: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    claims: dict[int, set[tuple[int, int, int]]] = defaultdict(set)
    at: dict[int, set[tuple[int, int, int]]] = defaultdict(set)
    damaged: set[int] = set()
    for row in records if bounds else []:
        offset = row["offset"]
        if row["isolation"] == RC and row["valid"] and row["producer_id"] is not None and offset < start:
            below[who(row)].add(offset)
        if not (start <= offset < end if row["isolation"] == RC else ru is not None and ru_start <= offset < ru_end):
            continue
        if not row["valid"]:
            damaged.add(offset)
        elif row["producer_id"] is not None:
            standing[who(row)].add(offset)
            claims[offset].add(who(row))
            at[offset].add(who(row))
            if row["isolation"] == RC:
                committed[who(row)].add(offset)
            elif offset >= end:
                held[who(row)].add(offset)
    out.anomalies["corrupt"] += len(damaged)
    polled: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    for row in polls:
        claims[row["offset"]].add(who(row))
        if row["isolation"] == RC:
            polled[who(row)].add(row["offset"])
    for row in probes:
        if promised(row) and here(row) and row["offset"] is not None:
            claims[row["offset"]].add(who(row))
    out.anomalies["inconsistent-offsets"] += sum(len(owners) > 1 for owners in claims.values())

    # rule 15
    grouped: dict[tuple[int, int, int], list[Row]] = defaultdict(list)
    for row in probes:
        grouped[who(row)].append(row)

    def preference(row: Row) -> tuple[int, int, int, bool]:
        acked_at = row["acked_at"] if row["acked_at"] is not None and row["outcome"] == "acked" else NEVER
        return RANK[row["outcome"]], acked_at, NEVER if row["offset"] is None else row["offset"], not here(row)

    chosen = {identity: min(rows, key=preference) for identity, rows in grouped.items()}
    offsets: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for row in probes:
        if row["offset"] is not None and here(row):
            known = offsets[row["producer_id"], row["generation"]]
            known[row["sequence"]] = min(known.get(row["sequence"], NEVER), row["offset"])

    if bounds is None and any(promised(row) and here(row) for row in chosen.values()):
        out.unjudged.append(spot)
    for identity, row in chosen.items():
        state, offset, kept = transaction(row), row["offset"], promised(row)
        refused = row["outcome"] == "failed" or state == "aborted"
        key = (*spot, *identity)
        if not here(row):
            out.verdicts[key] = "other-incarnation", offset
            out.voided += kept
            continue
        seen_rc = bool(committed[identity]) or bool(polled[identity])
        if bounds is None:
            if refused and polled[identity]:
                out.verdicts[key] = "aborted-read", offset
                out.anomalies["G1a"] += 1
            continue
        assert rc is not None
        places = set(committed[identity])
        if kept and state is None:
            places |= held[identity]
        found = bool(places)
        within_polls = {place for place in polled[identity] if start <= place < end}

        # rule 4: where it stands
        expired = early = pending = False
        if offset is not None:
            gone = offset < start or (ru is not None and end <= offset < ru_end and offset < ru_start)
            if gone:
                ms, size = rc["retention_ms"], rc["retention_bytes"]
                explained = (
                    ms is None
                    or (size is not None and size != -1)
                    or (ms >= 0 and rc["dumped_at"] - row["sent_at"] >= ms * 1000 - min(ms * 100, 60_000_000))
                )
                expired, early = explained, kept and not explained
            elif ru is None:
                pending = offset >= end
            elif offset >= high:
                earlier = min(rc["dumped_at"], ru["dumped_at"])
                pending = not (kept and row["acked_at"] is not None and row["acked_at"] < earlier - FIVE_MINUTES)
            elif offset >= end and state is not None:
                pending = True
            if not gone and not kept and not refused and state is None and not committed[identity] and held[identity]:
                pending = True
        elif kept and not found and not within_polls:
            mates = offsets[identity[0], identity[1]]
            lower = [mates[number] for number in sorted(mates) if number < identity[2]]
            upper = [mates[number] for number in sorted(mates) if number > identity[2]]
            limit = high if state is None else end
            inside = bool(lower and upper) and all(start <= place < limit for place in (lower[-1], upper[0]))
            pending = not inside
        elif not kept and not refused and state is None and not committed[identity] and held[identity]:
            pending = True

        copies = len(standing[identity]) > 1
        if refused and seen_rc:
            verdict = "aborted-read"
        elif copies:
            verdict = "duplicate"
        elif early:
            verdict = "early-expiry"
        elif expired:
            verdict = "expired"
        elif pending:
            verdict = "pending"
        elif kept and found and (offset is None or offset in places):
            verdict = "survived"
        elif kept and offset in damaged:
            verdict = "corrupt"
        elif kept and (found or any(other != identity for other in at.get(offset, ()))):
            verdict = "moved"
        elif kept or (within_polls and not found and not refused):
            verdict = "lost"
        elif found:
            verdict = "unacked-found"
        else:
            verdict = "unacked-absent"
        lowest = min(committed[identity] or held[identity] or (standing[identity] if copies else ()), default=None)
        out.verdicts[key] = verdict, lowest if offset is None else offset
        out.anomalies["duplicate"] += copies
        out.anomalies["G1a"] += verdict == "aborted-read"
        out.anomalies["early-expiry"] += verdict == "early-expiry"
        if kept and expired and not (seen_rc or below[identity]):
            out.unverified += 1
        if not expired and not pending:
            bad = verdict in ("early-expiry", "corrupt")
            out.table["attempted"] += 1
            out.table["acked"] += kept
            out.table["survivors"] += found and not bad
            out.table["acked_lost"] += kept and (not found or bad)
            out.table["unacked_found"] += not kept and found
            out.anomalies["lost-write"] += (kept and not found and not bad) or verdict == "lost"
        if state in ("committed", "indeterminate"):
            name = (cluster, identity[0], identity[1], row["transaction_id"])
            if found:
                out.proven.add(name)
            elif offset is not None and start <= offset < end:
                out.missing[name] = state

    if bounds is None:
        return
    extents: dict[tuple[int, int], tuple[int, int]] = {}
    for producer, generation, sequence in grouped:
        low, top = extents.get((producer, generation), (sequence, sequence))
        extents[producer, generation] = min(low, sequence), max(top, sequence)
    for identity in {*committed, *polled} - set(grouped):
        key = (*spot, *identity)
        if not committed.get(identity):
            if any(start <= offset < end for offset in polled[identity]):
                out.verdicts[key] = "lost", None
                out.anomalies["lost-write"] += 1
            continue
        producer, generation, sequence = identity
        started = generations.get((cluster, producer), set())
        beyond = "pending" if started and generation == max(started) else "unacked-found"
        if started and generation < min(started):
            continue
        if generation not in started:
            verdict = "unexpected"
        elif (producer, generation) not in extents:
            verdict = beyond
        elif sequence < extents[producer, generation][0]:
            continue
        elif sequence > extents[producer, generation][1]:
            verdict = beyond
        else:
            verdict = "unexpected"
        out.verdicts[key] = verdict, min(committed[identity])
        out.anomalies["phantom"] += verdict == "unexpected"
        out.anomalies["duplicate"] += len(standing[identity]) > 1

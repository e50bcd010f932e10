"""What was promised at the offsets around a violation: its own evidence at once, the probe log's rows when they come.

Pure. The probe log is about a minute behind; the evidence of a violation is there with it, but has no readers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from canary.probe.identity import Identity
from storage.store.values import StoredViolation

NEIGHBOURS = 5
"""Offsets shown on either side of each end of a range."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A probe that was promised or read at an offset.

    ``seen_by`` None: only the evidence knows it, which names no readers.
    """

    identity: Identity
    outcome: str
    acked_at: datetime | None = None
    seen_by: tuple[str, ...] | None = None
    gone: bool = False
    """The violation is about this probe: another one at the same offset was written there later."""


@dataclass(frozen=True, slots=True)
class Place:
    """An offset and the probes that belong there; ``disputed``: the violation is about it."""

    offset: int
    disputed: bool
    claims: tuple[Claim, ...]


def shown_spans(found: Sequence[StoredViolation]) -> list[tuple[int, int]]:
    """Return the offsets to show, as [begin, end): around both ends of what was found; of a short range all.

    ``found``: violations of one range, in the order of offsets.
    """
    first = found[0].offset if found and found[0].partition is not None else None
    if first is None:
        return []
    last = _last(found[-1])
    spans = [(max(0, end - NEIGHBOURS), end + NEIGHBOURS + 1) for end in dict.fromkeys((first, last))]
    return [(spans[0][0], spans[-1][1])] if len(spans) > 1 and spans[1][0] <= spans[0][1] else spans


def places(found: Sequence[StoredViolation], logged: Iterable[Mapping[str, Any]]) -> list[Place]:
    """Return the offsets of :func:`shown_spans` with what belongs there.

    ``found``: the first and the last with their evidence; ``logged``: rows of the probe log (ProbeLogReader.between).
    """
    spans = shown_spans(found)
    claims: dict[int, dict[Identity, Claim]] = {}
    for offset, claim in (one for row in found for one in _of_evidence(row, spans)):
        claims.setdefault(offset, {})[claim.identity] = claim
    for one in logged:
        identity = Identity(one["producer_id"], one["generation"], one["partition"], one["sequence"])
        known = claims.setdefault(one["offset"], {})
        gone = identity in known and known[identity].gone
        outcome = one["outcome"] or "unknown"
        known[identity] = Claim(identity, outcome, one.get("acked_at"), tuple(one["seen_by"]), gone)
    return [
        Place(offset, disputed=any(_is_about(row, offset) for row in found), claims=tuple(known.values()))
        for begin, end in spans
        for offset in range(begin, end)
        for known in (claims.get(offset, {}),)
    ]


def _last(row: StoredViolation) -> int:
    return (row.offset or 0) if row.last_offset is None else row.last_offset


def _is_about(row: StoredViolation, offset: int) -> bool:
    """Whether a violation is about an offset: a range may have holes, of transaction markers, for example."""
    if row.records:
        return any(run.offset is not None and run.offset <= offset < run.offset + run.size for run in row.records)
    return row.offset is not None and row.offset <= offset <= _last(row)


def _of_evidence(row: StoredViolation, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Claim]]:
    state = row.evidence.get("partition_state")
    around = state.get("neighbourhood") if isinstance(state, Mapping) else None
    for one in (*_listed(around), *_listed(row.evidence.get("last_neighbourhood"))):
        identity = Identity(one["producer_id"], one["generation"], row.partition or 0, one["sequence"])
        yield one["offset"], Claim(identity, "acked or read")
    outcome = "acked" if row.evidence.get("acknowledged", True) else "read before"
    if row.identity is not None and row.count == 1 and row.offset is not None:
        yield row.offset, Claim(row.identity, outcome, gone=True)
    for begin, end in spans:
        for run in row.records:
            if run.offset is not None and run.identity is not None:
                for offset in range(max(begin, run.offset), min(end, run.offset + run.size)):
                    sequence = run.identity.sequence + offset - run.offset
                    yield offset, Claim(run.identity._replace(sequence=sequence), outcome, gone=True)


def _listed(found: object) -> list[Mapping[str, Any]]:
    names = {"offset", "producer_id", "generation", "sequence"}
    return [one for one in found if isinstance(one, Mapping) and names <= set(one)] if isinstance(found, list) else []

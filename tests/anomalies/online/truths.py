"""What the tracker says of a simulated life, held against what was broken in it: kinds, places and identities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.histories.agreement import expired_in_doubt
from simulation.histories.lives import promises

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canary.anomalies.violation import Violation
    from simulation.histories.clockwork import Injected
    from simulation.histories.lives import Life

ECHOES: dict[str, frozenset[str]] = {
    "fractured-transaction": frozenset({"lost-write"}),
    "truncation": frozenset({"lost-write", "inconsistent-offsets", "poll-skip", "fractured-transaction"}),
    "inconsistent-offsets": frozenset({"lost-write", "fractured-transaction"}),
    "G1a": frozenset({"precommitted-read"}),
    "nonmonotonic-poll": frozenset({"poll-skip"}),
}
"""What else is said of the same place, from other sides."""


def every_truth_is_said_and_nothing_else(life: Life) -> int:
    """Hold the tracker's violations against the truths, both ways; return how many were certain."""
    truths = [truth for truth in life.world.injected if truth.facts]
    certain = [truth for truth in truths if truth.certain]
    due = [truth for truth in certain if not _excused(truth, certain, life)]
    missing = [truth for truth in due if not any(_is(v, truth, life) for v in life.online)]
    assert not missing, (life.seed, life.broken, missing, told(life.online))
    recreated = life.said("topic-recreated")
    assert len(recreated) == bool(life.world.void), "one if it was, none if not"
    strange = [v for v in life.online if v not in recreated and not any(_explains(t, v, life) for t in truths)]
    assert not strange, (life.seed, life.broken, told(strange), truths)
    return len(certain)


def nothing_is_said(life: Life) -> None:
    """A life in which nothing was broken: no violation, and nothing that is still in doubt."""
    assert told(v for v in life.online if v.kind != "topic-recreated") == [], life.seed
    assert len(life.online) == bool(life.world.void), "one topic-recreated if it was, none if not"
    logs = [log for topic in life.tracker.state.topics.values() for log in topic.logs.values()]
    assert not any(log.held or log.missing for log in logs), life.seed


def told(violations: object) -> list[tuple[object, ...]]:
    """Return what a message says of violations."""
    return [(v.kind, v.partition, v.offset, v.identity, v.summary) for v in violations]  # type: ignore[attr-defined]


def _excused(truth: Injected, truths: Sequence[Injected], life: Life) -> bool:
    """Whether a truth need not be found, because something else was broken at the same place."""
    same_key = [other for other in truths if other.key == truth.key and other.offset is not None]
    if truth.kind == "early-expiry" or truth.offset is None:
        return False
    early = [v for v in life.said("early-expiry") if any(_is(v, other, life) for other in same_key)]
    if any(truth.offset < int(v.evidence["log_start"]) for v in early):
        return True  # gone with all others before it was looked at again: that they are is said
    if truth.kind == "duplicate" and truth.identity in expired_in_doubt(life):
        return True
    if truth.kind == "poll-skip":
        if any(other.kind == "duplicate" and other.identity == truth.identity for other in same_key):
            return True  # it stands twice, which is said, and it was given at the other place
        # nobody knew that it had to be delivered, unless somebody else happened to read it
        return truth.identity not in promises(life.world.facts())
    return any(other.kind == "poll-skip" and other.offset == truth.offset for other in same_key)


def _is(violation: Violation, truth: Injected, life: Life) -> bool:
    """Whether a violation is what was broken: its kind, partition, offset, and identity if both have one."""
    kinds = ("nonmonotonic-send", "reorder") if truth.kind == "nonmonotonic-send" else (truth.kind,)
    if violation.kind not in kinds or violation.partition != truth.partition:
        return False
    if violation.offset is None or truth.offset is None:
        return violation.offset is truth.offset
    if truth.kind == "early-expiry":  # from the first that is gone to the log's start, which retention may move on
        return violation.offset < truth.offset <= int(violation.evidence["log_start"])
    if truth.kind == "truncation" and len(life.broken) > 1:  # another loss below it may have been found with it
        return violation.offset <= truth.offset
    return violation.offset == truth.offset and violation.identity in (None, truth.identity or violation.identity)


def _explains(truth: Injected, violation: Violation, life: Life) -> bool:
    """Whether a violation is a truth, or its echo at the same place."""
    if _is(violation, truth, life):
        return True
    if truth.kind == "precommitted-read" and violation.kind in {"lost-write", "fractured-transaction"}:
        return _left_open(violation, life) and _transaction(violation, life) == _transaction(truth, life)
    if (violation.kind, truth.kind) == (
        "truncation",
        "inconsistent-offsets",
    ) and violation.partition == truth.partition:
        return _lost_up_to(truth, violation.offset, life)
    if violation.kind not in ECHOES.get(truth.kind, ()) or violation.partition != truth.partition:
        return False
    return violation.offset == truth.offset or (truth.identity is not None and violation.identity == truth.identity)


def _lost_up_to(truth: Injected, first: int | None, life: Life) -> bool:
    """Whether all is lost from an offset to one that was given again: nobody can tell that from a log that was cut."""
    assert first is not None
    assert truth.offset is not None
    lost = life.places("lost-write")
    return first <= truth.offset and all((truth.key, at) in lost for at in range(first, truth.offset + 1))


def _left_open(violation: Violation, life: Life) -> bool:
    """Whether the runner died before the commit: the early read proves that there was one, and all else was aborted."""
    return violation.identity not in promises(life.world.facts())


def _transaction(found: Violation | Injected, life: Life) -> object:
    """Return the transaction that something was found of."""
    return found.identity and life.retelling.transaction_of.get(found.identity, found)

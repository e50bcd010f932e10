"""What the checker says of the history of a simulated life, held against what was broken in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulation.histories.injections import ECHOES

if TYPE_CHECKING:
    from simulation.histories.clockwork import Injected
    from simulation.histories.lives import Life


STEPS = frozenset({"poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll"})
"""Measured between the places of two values: a value that stands twice has no one place."""


def every_truth_is_found_and_nothing_else(life: Life) -> int:
    """Every truth must be found, and nothing else but its echoes. Return how many there are."""
    found = life.verdict.anomalies
    truths = [t for t in life.world.injected if t.history and t.certain and (life.ww_deps or t.kind != "G0")]
    twice = {case["key"] for case in found.get("duplicate", ())}
    due = [t for t in truths if not (t.kind in STEPS and t.key in twice)]
    missing = [t for t in due if not any(shown_by(case, t) for case in found.get(t.kind, ()))]
    assert not missing, (life.seed, life.broken, missing)
    explained = {truth.kind for truth in truths} | life.verdict.allowed
    unseen = {key for case in found.get("unseen", ()) for key in case["unseen"]}
    explained |= {"unseen"} if unseen and unseen <= life.world.void else set()
    explained |= {echo for kind in life.broken for echo in ECHOES.get(kind, frozenset())}
    assert explained >= set(found), (life.seed, life.broken, life.verdict.counts)
    return len(truths)


def shown_by(case: Any, truth: Injected) -> bool:
    """Whether a case is about what was injected: its key, and its value or its offset."""
    if "edges" in case:
        return any(edge["value"] == truth.value for edge in case["edges"])
    if case["key"] != truth.key:
        return False
    if truth.value is None:
        return bool(case["offset"] == truth.offset)
    if "offsets" in case and truth.offset not in case["offsets"]:
        return False
    return truth.value in (case.get("value"), *case.get("values", ()), *case.get("skipped", ()))


def nothing_is_found(life: Life) -> None:
    """A life in which nothing was broken is valid."""
    left = set(life.verdict.anomalies) - life.verdict.allowed
    if life.world.void:  # what was on its way then was acknowledged, perhaps, and nobody could read it
        left -= {"unseen"}
        assert all(set(case["unseen"]) <= life.world.void for case in life.verdict.anomalies.get("unseen", ()))
    assert not left, (life.seed, life.verdict.counts)

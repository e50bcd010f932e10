"""The checker against simulated lives whose truth is known: nothing is reported that was not broken, all else is."""

from __future__ import annotations

import io
from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from canary.anomalies.offline import Options, check
from canary.history import load
from tests.generators.injections import ECHOES, INJECTIONS
from tests.generators.simulator import simulate
from tests.generators.wild import seeded
from tests.support.soaking import soak

if TYPE_CHECKING:
    from canary.anomalies.offline import Verdict
    from tests.generators.clockwork import Injected, World

HISTORY_KINDS = sorted(set(INJECTIONS) - {"zombie-write", "early-expiry"})
"""Those two leave no trace in a history."""


def verdict_on(world: World, *, ww_deps: bool = True) -> Verdict:
    file = io.BytesIO(b"".join(orjson.dumps(op) + b"\n" for op in world.history()))
    return check(load(file, f"seed {world.seed}"), Options(sub_via=world.sub_via, ww_deps=ww_deps))


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


def breaks(seed: int, *kinds: str) -> Counter[str]:
    """Live with ``kinds`` injected: every truth must be found, and nothing else but its echoes. Return the truths."""
    world = simulate(seed, inject=kinds)
    ww_deps = "G1c" not in kinds
    verdict = verdict_on(world, ww_deps=ww_deps)
    truths = [truth for truth in world.injected if truth.history and (ww_deps or truth.kind != "G0")]
    for truth in truths:
        assert any(shown_by(case, truth) for case in verdict.anomalies.get(truth.kind, ())), (seed, truth)
    explained = {truth.kind for truth in truths} | verdict.allowed
    unseen = {key for case in verdict.anomalies.get("unseen", ()) for key in case["unseen"]}
    explained |= {"unseen"} if unseen and unseen <= world.void else set()
    explained |= {echo for kind in kinds for echo in ECHOES.get(kind, frozenset())}
    assert explained >= set(verdict.anomalies), (seed, verdict.counts)
    return Counter(truth.kind for truth in truths)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_reported_of_a_correct_life(seed: int) -> None:
    valid(seed)


@pytest.mark.parametrize("kind", HISTORY_KINDS)
def test_what_was_broken_is_found(kind: str) -> None:
    assert sum((breaks(seed, kind) for seed in range(10)), Counter()).total() >= 8


@pytest.mark.parametrize("seed", range(20))
def test_what_was_broken_in_several_ways_is_found(seed: int) -> None:
    kinds = seeded(seed).sample(HISTORY_KINDS, 4)
    breaks(seed, *kinds)


def test_a_circle_of_reads_is_not_valid_and_one_through_the_order_of_writes_is() -> None:
    world = simulate(4, inject=["G1c"], faults=False)
    assert not verdict_on(world, ww_deps=False).valid
    assert verdict_on(world, ww_deps=True).valid


def test_two_values_of_one_transaction_side_by_side_are_no_edge_of_a_cycle() -> None:
    """0 and 1 wrote x and y in opposite orders; 0 wrote twice in a row to x, which makes no circle of it."""
    writes = {
        0: [["send", "x", [0, "a"]], ["send", "x", [1, "b"]], ["send", "y", [1, "d"]]],
        1: [["send", "x", [2, "c"]], ["send", "y", [0, "e"]]],
    }
    lines: list[dict[str, Any]] = []
    for process, done in writes.items():
        asked = [["send", key, value] for _, key, (_, value) in done]
        for kind, value in (("invoke", asked), ("ok", done)):
            now = len(lines)
            lines.append({"index": now, "time": now, "process": process, "type": kind, "f": "txn", "value": value})
    file = io.BytesIO(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    (cycle,) = check(load(file, "by hand"), Options()).anomalies["G0"]
    assert [(edge["from"], edge["to"]) for edge in cycle["edges"]] == [(1, 3), (3, 1)]


def valid(seed: int) -> int:
    world = simulate(seed)
    verdict = verdict_on(world)
    left = set(verdict.anomalies) - verdict.allowed
    if world.void:  # what was on its way when the topic was deleted was acknowledged, perhaps, and nobody could read it
        left -= {"unseen"}
        assert all(set(case["unseen"]) <= world.void for case in verdict.anomalies.get("unseen", ()))
    assert not left, (seed, verdict.counts)
    return 1


@pytest.mark.slow
@pytest.mark.timeout(14_400)
def test_nothing_is_reported_of_ten_thousand_correct_lives() -> None:
    soak("offline correct", 10_000, valid)


@pytest.mark.slow
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("kind", HISTORY_KINDS)
def test_what_was_broken_is_found_a_thousand_times(kind: str) -> None:
    soak(f"offline {kind}", 1000, lambda seed: breaks(seed, kind).total())


@pytest.mark.slow
@pytest.mark.timeout(14_400)
def test_what_was_broken_in_several_ways_is_found_a_thousand_times() -> None:
    soak("offline several", 1000, lambda seed: breaks(seed, *seeded(seed).sample(HISTORY_KINDS, 4)).total())

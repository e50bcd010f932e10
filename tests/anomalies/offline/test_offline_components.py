"""Cycles in graphs: the shortest one, and nothing cut away that is on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from canary.anomalies.offline.components import components, core, shortest_cycle
from simulation.histories.wild import seeded
from tests.support.seeds import cases

if TYPE_CHECKING:
    from random import Random


def test_the_shortest_cycle_is_found_though_a_longer_one_comes_first() -> None:
    # 0 -> 1 -> 2 -> 3 -> 0, and 3 -> 4 -> 3
    tail, head = [0, 1, 2, 3, 3, 4], [1, 2, 3, 0, 4, 3]
    assert sorted(shortest_cycle(tail, head, list(range(6)))) == [4, 5]


def test_a_cycle_goes_through_an_edge_that_was_asked_for() -> None:
    tail, head = [0, 1, 2, 3, 3, 4], [1, 2, 3, 0, 4, 3]
    assert shortest_cycle(tail, head, [0]) == [0, 1, 2, 3]


def test_nothing_on_a_cycle_is_cut_away() -> None:
    for seed in cases("graphs", 150):
        nothing_on_a_cycle_is_cut_away(seeded(seed), forward=seed % 2 == 1)


def nothing_on_a_cycle_is_cut_away(random: Random, *, forward: bool) -> None:
    nodes = random.randint(2, 30)
    edges = [(random.randrange(nodes), random.randrange(nodes)) for _ in range(random.randint(1, 60))]
    edges = [(a, b) for a, b in edges if a != b]
    if forward:  # mostly, as in a history
        edges = [(min(e), max(e)) if random.random() < 0.8 else e for e in edges]
    tail, head = np.asarray([a for a, _ in edges], np.int64), np.asarray([b for _, b in edges], np.int64)
    kept = set(core(tail, head, nodes).tolist())
    reach = {n: {n} for n in range(nodes)}
    for _ in range(nodes):
        for a, b in edges:
            reach[a] |= reach[b]
    on_cycle = {number for number, (a, b) in enumerate(edges) if a in reach[b]}
    assert kept >= on_cycle
    node, component = components(tail, head)
    groups: dict[int, set[int]] = {}
    for n, c in zip(node.tolist(), component.tolist(), strict=True):
        groups.setdefault(c, set()).add(n)
    expected = {frozenset(b for b in range(nodes) if b in reach[a] and a in reach[b]) for a in range(nodes)}
    assert {frozenset(group) for group in groups.values()} == {group for group in expected if len(group) > 1}


def test_a_chain_of_a_hundred_thousand_overflows_nothing() -> None:
    tail = np.arange(100_000)
    head = (tail + 1) % 100_000
    node, component = components(tail, head)
    assert len(node) == 100_000
    assert len(set(component.tolist())) == 1

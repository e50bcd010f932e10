"""Simulated lives whose truth is known: producers, transactions, restarts, leader changes, a topic deleted.

Each life is lived once and judged three times: the tracker on the facts (online.truths), the checker on the history of
its processes (offline.truths), and both on the same facts (agreement).
"""

from __future__ import annotations

import pytest

from canary.anomalies.offline import Options
from simulation.histories.agreement import WORDLESS, agree
from simulation.histories.injections import INJECTIONS
from simulation.histories.lives import lived, verdict_on
from simulation.histories.simulator import simulate
from simulation.histories.wild import seeded
from tests.anomalies.offline.truths import every_truth_is_found_and_nothing_else, nothing_is_found
from tests.anomalies.online.truths import every_truth_is_said_and_nothing_else, nothing_is_said
from tests.support.seeds import cases, examples

HISTORY_ONLY = {"G0", "G1c", "int-poll-skip", "int-nonmonotonic-poll"}
"""Cycles come from the ledger in windows; a stream of deliveries has no operations to be within."""
FACTS_ONLY = {"zombie-write", "early-expiry"}
"""Those two leave no trace in a history, and what expires too early hides there what else was broken."""


@pytest.mark.dear("twenty lives, each judged three times")
def test_nothing_is_said_of_a_correct_life() -> None:
    for seed in cases("correct lives", 20, 1743457292):
        life = lived(seed)
        nothing_is_said(life)
        nothing_is_found(life)
        assert not agree(life), seed


@pytest.mark.dear("lives until each kind was met several times")
@pytest.mark.parametrize("kind", sorted(INJECTIONS))
def test_what_was_broken_is_said(kind: str) -> None:
    """By the tracker, by the checker, and of the same by both, each as far as it has a word for it."""
    online = offline = compared = 0
    both = examples(0 if kind in HISTORY_ONLY | FACTS_ONLY | WORDLESS else 3)
    for seed in cases(f"lives with {kind}", 160):
        life = lived(seed, kind)
        online += every_truth_is_said_and_nothing_else(life)
        offline += every_truth_is_found_and_nothing_else(life)
        compared += agree(life)[kind.removeprefix("int-")]
        enough = (online >= examples(4) or kind in HISTORY_ONLY) and (offline >= examples(4) or kind in FACTS_ONLY)
        if enough and compared >= both:
            return
    pytest.fail(f"of 160 lives only {online} were broken online, {offline} offline, {compared} could be compared")


@pytest.mark.dear("ten lives that were judged wrongly once, and twenty fresh ones")
def test_what_was_broken_in_several_ways_is_said() -> None:
    two_early_reads_of_one_producers_transactions = lived(830, "G1a-transaction", "poll-skip", "precommitted-read")
    agree(two_early_reads_of_one_producers_transactions)
    skips_at_an_offset_that_was_given_to_two = 1121537559, 1299157916
    copies_whose_first_expired_in_doubt = 543310127, 623389360
    died_after_an_early_read = 536324970
    given_again_after_it_expired = 2068407333
    skipped_where_its_copy_stands = 154065261
    skipped_behind_what_stands_twice = 775395164
    killed_before_it_was_told_of_a_commit_that_was_read = 2062411827
    known = (
        *skips_at_an_offset_that_was_given_to_two,
        *copies_whose_first_expired_in_doubt,
        died_after_an_early_read,
        given_again_after_it_expired,
        skipped_where_its_copy_stands,
        skipped_behind_what_stands_twice,
        killed_before_it_was_told_of_a_commit_that_was_read,
    )
    for seed in cases("lives broken in several ways", 20, *known):
        life = lived(seed, *seeded(seed).sample(sorted(INJECTIONS), 4))
        every_truth_is_said_and_nothing_else(life)
        if not FACTS_ONLY & set(life.broken):
            every_truth_is_found_and_nothing_else(life)
        agree(life)


def test_a_circle_of_reads_is_not_valid_and_one_through_the_order_of_writes_is() -> None:
    for seed in cases("circles of reads", 4):
        history = simulate(seed, inject=["G1c"], faults=False).history()
        assert not verdict_on(history, Options(ww_deps=False)).valid
        assert verdict_on(history, Options(ww_deps=True)).valid

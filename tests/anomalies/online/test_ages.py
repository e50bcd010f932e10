"""Ages of offsets: never younger than they are, never older by a step, and a steady rate is a few entries."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from canary.anomalies.online.sets import ages
from simulation.histories.wild import seeded

S = 10**9
STEP = 30 * S
RATES = ("steady", "visits", "slow", "bursts", "wild")
RECORDS = 2500


def sendings(rate: str, dice: random.Random) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Return what is remembered, and (offset, time) of each record that was sent."""
    known: list[list[int]] = []
    truth: list[tuple[int, int]] = []
    at_ns, offset = 10**18, 0
    for i in range(RECORDS):
        now = rate if rate != "mixed" else RATES[i // 300 % len(RATES)]
        n = 1 if now in {"steady", "slow"} else 2 if now == "visits" else dice.randrange(1, 9)
        gap_s = {"steady": 0.5, "visits": 7.5, "slow": 60.0, "bursts": dice.choice([0, 0.01, 3, 25]), "wild": 0}[now]
        at_ns += round(gap_s * S) + dice.randrange(40 * S if now == "wild" else S // 100)
        sent = [at_ns + 1000 * k for k in range(n)]
        ages.remember(known, offset, n, sent.__getitem__, STEP)
        truth += [(offset + k, sent[k]) for k in range(n)]
        at_ns, offset = sent[-1], offset + n + (now == "visits")
    return known, truth


@pytest.mark.parametrize("rate", [*RATES, "mixed"])
def test_no_record_is_taken_for_younger_nor_for_older_by_a_step(rate: str) -> None:
    known, truth = sendings(rate, seeded(7))
    for offset, sent_ns in truth:
        found = ages.sent_at(known, offset)
        assert found is not None
        assert 0 <= sent_ns - found <= STEP
    for _, asked_ns in truth[::50]:
        first, has_earlier = ages.first_after(known, asked_ns)
        later = next((offset for offset, sent_ns in truth if sent_ns > asked_ns + STEP), None)
        assert first is None or all(sent_ns > asked_ns for offset, sent_ns in truth if offset >= first)
        assert later is None or (first is not None and first <= later)
        assert has_earlier or asked_ns == truth[0][1]


@pytest.mark.parametrize("rate", ["steady", "visits", "slow"])
def test_a_steady_rate_is_a_few_entries(rate: str) -> None:
    known, _ = sendings(rate, seeded(8))
    assert len(known) < 60


def test_what_a_clock_that_was_ahead_said_is_forgotten_and_the_rest_stays() -> None:
    known, truth = sendings("mixed", seeded(9))
    now_ns = truth[len(truth) // 2][1]
    ages.forget_after(known, now_ns)
    for offset, sent_ns in truth:
        found = ages.sent_at(known, offset)
        assert found is not None
        assert found <= now_ns
        assert sent_ns > now_ns or 0 <= sent_ns - found <= STEP


def test_what_is_below_the_start_is_forgotten_but_for_the_last_of_it() -> None:
    known, truth = sendings("mixed", seeded(10))
    start = truth[len(truth) // 2][0]
    before = len(known)
    ages.forget_below(known, start)
    assert len(known) < 0.7 * before
    assert all(
        0 <= sent_ns - (ages.sent_at(known, offset) or 0) <= STEP for offset, sent_ns in truth if offset >= start - 1
    )


@pytest.mark.parametrize("rate", ["steady", "visits"])
def test_where_a_log_was_cut_and_is_filled_again_the_latest_count(rate: str) -> None:
    known, truth = sendings(rate, seeded(11))
    cut, at_ns = truth[len(truth) // 2][0], truth[-1][1]
    refilled = [(offset, at_ns + i * 5 * S) for i, offset in enumerate(range(cut, cut + 100))]
    for offset, sent_ns in refilled:
        ages.remember(known, offset, 1, lambda _, ns=sent_ns: ns, STEP)  # type: ignore[misc]
    for offset, sent_ns in [*(one for one in truth if one[0] < cut), *refilled]:
        found = ages.sent_at(known, offset)
        assert found is not None
        assert 0 <= sent_ns - found <= STEP
    assert all(a[1] <= b[1] for a, b in pairwise(known))


def test_points_of_an_older_version_are_read_as_they_are() -> None:
    known = [[n * STEP, n * 300] for n in range(1, 100)]
    for i in range(100, 200):
        ages.remember(known, i * 300, 1, lambda _, ns=i * STEP: ns, STEP)  # type: ignore[misc]
    assert all(0 <= n * STEP - (ages.sent_at(known, n * 300) or 0) <= STEP for n in range(1, 200))


def test_what_stood_above_and_was_sent_before_was_cut_off() -> None:
    known: list[list[int]] = []
    for offset in range(100):
        ages.remember(known, offset, 1, lambda _, at=offset: (1000 + 60 * at) * S, STEP)  # type: ignore[misc]
    ages.remember(known, 50, 1, lambda _: 20_000 * S, STEP)
    assert 0 <= (1000 + 60 * 49) * S - (ages.sent_at(known, 49) or 0) <= STEP
    assert {ages.sent_at(known, offset) for offset in (50, 70, 99)} == {20_000 * S}

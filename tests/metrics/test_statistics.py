from __future__ import annotations

import math

import pytest

from canary.metrics.statistics import loss_rate_upper_95, upper_bound
from tests.support.steps import steps

# from scipy: the quantile 0.95 of Beta(lost + 1, acked - lost)
KNOWN = {
    (0, 1): 0.95,
    (0, 10): 0.2588655508930522,
    (0, 1000): 0.002991249545095295,
    (1, 10): 0.39416330243650466,
    (1, 100): 0.046559811453538935,
    (3, 1000): 0.007735244718479458,
    (10, 20): 0.6980460887135065,
    (9, 10): 0.9948838031081763,
    (10, 10): 1.0,
    (999, 1000): 0.999948708021091,
    (50, 100): 0.5863782853690882,
    (5, 10**6): 1.0513005929398719e-05,
    (1, 10**9): 4.743864490591013e-09,
    (1000, 10**6): 0.0010535748774544362,
    (123456, 10**7): 0.012403190602364472,
    (10**6, 10**9): 0.0010016455979951705,
}


@pytest.mark.parametrize(("counts", "bound"), KNOWN.items())
def test_the_bound_is_the_exact_one(counts: tuple[int, int], bound: float) -> None:
    assert loss_rate_upper_95(*counts) == pytest.approx(bound, rel=1e-10)


def test_nothing_acknowledged_has_no_bound() -> None:
    assert loss_rate_upper_95(0, 0) is None


def test_the_bound_makes_so_few_losses_a_chance_of_5_percent() -> None:
    for lost, acked in ((1, 7), (2, 30), (7, 50), (40, 45)):
        p = loss_rate_upper_95(lost, acked)
        assert p is not None
        chance = sum(math.comb(acked, i) * p**i * (1 - p) ** (acked - i) for i in range(lost + 1))
        assert chance == pytest.approx(0.05, rel=1e-9)


def test_more_losses_and_fewer_acks_never_lower_the_bound() -> None:
    bounds = [upper_bound(k, 300, 0.05) for k in range(301)]
    assert bounds == sorted(b for b in bounds if b is not None)
    assert (loss_rate_upper_95(2, 1000) or 0) > (loss_rate_upper_95(2, 1001) or 0)


def test_a_disaster_is_computed_quickly() -> None:
    assert steps(lambda: upper_bound(10**7, 10**8, 0.05)) < 3_000_000  # fewer than there are losses


@pytest.mark.parametrize(("lost", "acked"), [(-1, 5), (6, 5)])
def test_impossible_counts_are_refused(lost: int, acked: int) -> None:
    with pytest.raises(ValueError, match="expected 0 <= successes <= trials"):
        loss_rate_upper_95(lost, acked)

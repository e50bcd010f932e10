from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from canary.anomalies.groups.ends import KEPT, Age, Ends

S = 10**9
STEPS = st.lists(st.tuples(st.integers(1, 100), st.integers(0, 50)), min_size=1, max_size=400)
"""Seconds to the next sample, and how many records were written in that time."""


@given(STEPS, st.integers(0, 20_000))
def test_an_age_is_never_outside_what_the_samples_leave_open(steps: list[tuple[int, int]], wanted: int) -> None:
    times = [0, *accumulate(step for step, _ in steps)]
    log = [0, *accumulate(written for _, written in steps)]
    ends = Ends()
    for at, end in zip(times, log, strict=True):
        ends.add(at * S, end)
    now = times[-1] + 3
    assert len(ends) <= KEPT
    age = ends.age(wanted, now * S)
    if wanted >= log[-1]:
        assert age is None
        return
    assert age is not None
    assert not age.at_least
    first = bisect_right(log, wanted)  # the first sample that had the record
    kept = [at // S for at in ends._at]
    earliest = max((at for at in kept if at <= times[first - 1]), default=0)
    latest = min(at for at in kept if at >= times[first])
    assert now - latest - 1e-6 <= age.seconds <= now - earliest + 1e-6


@given(st.integers(1, 400), st.integers(1, 50))
def test_a_log_that_grows_evenly_is_known_to_the_second_however_few_samples_are_left(rounds: int, rate: int) -> None:
    ends = Ends()
    for second in range(rounds + 1):
        ends.add(second * S, second * rate)
    for offset in range(0, rounds * rate, rate):
        age = ends.age(offset, rounds * S)
        assert age is not None
        assert abs(age.seconds - (rounds - offset / rate)) < 1e-6


def test_what_was_there_before_the_first_look_is_at_least_as_old_as_that() -> None:
    ends = Ends()
    ends.add(10 * S, 100)
    ends.add(20 * S, 110)
    assert ends.age(40, 25 * S) == Age(15.0, at_least=True)
    assert ends.age(100, 25 * S) == Age(15.0, at_least=False)


def test_a_record_after_a_silence_is_as_old_as_its_end_and_not_as_the_silence() -> None:
    ends = Ends()
    for second in range(0, 1000, 10):
        ends.add(second * S, 5)
    assert len(ends) == 2
    ends.add(1000 * S, 6)
    age = ends.age(5, 1000 * S)
    assert age is not None
    assert age.seconds <= 10


def test_a_log_that_was_cut_or_made_again_is_another_one() -> None:
    ends = Ends()
    ends.add(0, 100)
    ends.add(10 * S, 200)
    ends.add(20 * S, 20)
    assert ends.age(10, 30 * S) == Age(10.0, at_least=True)

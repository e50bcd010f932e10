"""What fails again and again starts more and more rarely, and what was well for a while starts at once."""

from __future__ import annotations

from canary.client.pauses import Pauses


def test_the_first_start_is_at_once_and_each_in_a_row_waits_twice_as_long_up_to_a_minute() -> None:
    now = 100.0
    pauses = Pauses(lambda: now)
    waited = []
    for _ in range(9):
        waited.append(pauses.left_s)
        now += pauses.left_s
        pauses.start()
    assert waited == [0, 1, 2, 4, 8, 16, 32, 60, 60]


def test_what_ran_for_a_minute_after_its_pause_is_not_failing_in_a_row() -> None:
    now = 0.0
    pauses = Pauses(lambda: now)
    for _ in range(4):
        now += pauses.left_s
        pauses.start()
    now += pauses.left_s + 59
    pauses.start()
    assert pauses.left_s == 16
    now += pauses.left_s + 61
    assert pauses.left_s == 0
    pauses.start()
    assert pauses.left_s == 1

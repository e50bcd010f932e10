"""What fails in a row is started again after longer and longer pauses."""

from __future__ import annotations

from canary.threads.backoff import LONGEST_S, STEADY_S, Pause, Pauses


class At:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def starts(pauses: Pauses, at: At, seconds: float) -> list[float]:
    """Return when something that always fails at once is started, asked every quarter of a second."""
    began, found = at.s, []
    while at.s < began + seconds:
        if pauses.may_start("tail"):
            found.append(at.s - began)
        at.s += 0.25
    return found


def test_the_first_start_is_at_once_and_each_pause_is_twice_as_long_up_to_a_minute() -> None:
    at = At()
    assert starts(Pauses(at), at, 250) == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]
    assert LONGEST_S == 60


def test_what_ran_for_some_seconds_each_time_is_still_failing_in_a_row() -> None:
    at = At()
    pauses, found = Pauses(at), []
    for pause in (1, 2, 4, 8, 16, 32, 60, 60):
        assert pauses.may_start("tail")
        at.s += pause - 0.25
        found.append(pauses.may_start("tail"))
        at.s += 0.25 + STEADY_S
    assert not any(found), "not before the pause is over"


def test_what_ran_for_long_is_not_failing_in_a_row() -> None:
    at = At()
    pauses = Pauses(at)
    starts(pauses, at, 20)
    at.s += 16 + STEADY_S + 1
    assert starts(pauses, at, 3.5) == [0, 1, 3]


def test_it_is_failing_from_its_second_start_in_a_row_until_it_has_run_for_long() -> None:
    at = At()
    pauses = Pauses(at)
    assert pauses.may_start("tail")
    assert pauses.may_start("watcher")
    assert pauses.failing() == []
    at.s += 1
    assert pauses.may_start("tail")
    assert pauses.failing() == ["tail"]
    at.s += 2 + STEADY_S
    assert pauses.failing() == ["tail"]
    at.s += 0.25
    assert pauses.failing() == []


def test_one_pause_grows_the_same_way_and_each_in_a_row_waits_twice_as_long_up_to_a_minute() -> None:
    now = 100.0
    pause = Pause(lambda: now)
    waited = []
    for _ in range(9):
        waited.append(pause.left_s)
        now += pause.left_s
        pause.start()
    assert waited == [0, 1, 2, 4, 8, 16, 32, 60, 60]


def test_one_pause_begins_again_after_a_minute() -> None:
    now = 0.0
    pause = Pause(lambda: now)
    for _ in range(4):
        now += pause.left_s
        pause.start()
    now += pause.left_s + 59
    pause.start()
    assert pause.left_s == 16
    now += pause.left_s + 61
    assert pause.left_s == 0
    pause.start()
    assert pause.left_s == 1

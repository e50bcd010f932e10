"""How transactions ended: what committed, what did not, and what cannot be told."""

from __future__ import annotations

from canary.salvage.outcomes import Outcomes, Undecided


def test_each_record_has_the_outcome_of_its_own_transaction() -> None:
    log = Outcomes()
    log.data(7, 0, 10)
    log.data(8, 0, 12)
    log.data(7, 0, 14)
    log.marker(7, 16, committed=False)
    log.data(7, 0, 17)
    log.marker(8, 19, committed=True)
    log.marker(7, 20, committed=True)
    log.data(7, 1, 21)
    log.data(8, 0, 22)
    log.unreadable(30)
    of = {(7, 10): "aborted", (7, 15): "aborted", (7, 17): "committed", (8, 12): "committed"}
    of |= {(7, 21): "undecided", (7, 25): "undecided", (8, 22): "undecided", (9, 22): "committed"}
    assert {place: log.of(*place) for place in of} == of
    assert list(log.undecided()) == [Undecided(7, 1, 21, 30), Undecided(8, 0, 22, 30)]


def test_what_was_open_before_a_damaged_place_stays_undecided_for_its_marker_may_have_been_there() -> None:
    log = Outcomes()
    log.data(7, 0, 10)
    log.data(9, 0, 11)
    log.unreadable(12)
    log.data(9, 0, 14)
    log.data(7, 0, 15)
    log.marker(7, 17, committed=True)
    log.data(8, 0, 18)
    log.marker(8, 19, committed=False)
    log.marker(9, 20, committed=False)
    log.unreadable(21)
    assert [log.of(7, 10), log.of(7, 15), log.of(8, 18)] == ["undecided", "committed", "aborted"]
    assert [log.of(9, 11), log.of(9, 14)] == ["undecided", "aborted"]
    assert list(log.undecided()) == [Undecided(7, 0, 10, 12), Undecided(9, 0, 11, 12)]


def test_a_marker_without_records_here_ends_nothing() -> None:
    log = Outcomes()
    log.marker(7, 10, committed=False)
    log.data(7, 0, 11)
    log.marker(7, 12, committed=True)
    assert log.of(7, 11) == "committed"

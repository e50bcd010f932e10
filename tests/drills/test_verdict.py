from __future__ import annotations

import dataclasses

import pytest

from canary.drills.drill import Drill, Said
from canary.drills.rig.verdict import judge, judge_control
from tests.drills.playing import DRILL, found, place, played


def drill(*says: Said, echoes: frozenset[str] = frozenset()) -> Drill:
    return Drill(title="", source="", steps=(), says=says, echoes=echoes, loses=True)


def test_what_is_gone_and_is_said_of_each_place_with_its_identity_is_found() -> None:
    verdict = judge(DRILL, played(found("lost-write", [4, 5]), found("lost-write", [6]), gone=[4, 5, 6]))
    assert verdict.complaints == ()
    assert [one.after_s for one in verdict.detected] == [pytest.approx(1.0)]


def test_what_is_not_said_is_missed() -> None:
    verdict = judge(DRILL, played(gone=[4]))
    assert [one.after_s for one in verdict.detected] == [None]
    (complaint,) = verdict.complaints
    assert complaint.startswith("missed")
    assert "lost-write" in complaint


def test_a_place_that_is_not_named_is_missed() -> None:
    (complaint,) = judge(DRILL, played(found("lost-write", [4]), gone=[4, 5])).complaints
    assert complaint.startswith("missed")
    assert "probes-0@5" in complaint
    assert "probes-0@4" not in complaint


def test_a_place_that_is_named_and_is_as_promised_is_false() -> None:
    (complaint,) = judge(DRILL, played(found("lost-write", [4, 5]), gone=[4])).complaints
    assert complaint.startswith("false")
    assert "probes-0@5" in complaint


def test_another_identity_than_the_one_that_was_there_is_false() -> None:
    (complaint,) = judge(DRILL, played(found("lost-write", [4], shift=1), gone=[4])).complaints
    assert complaint.startswith("false")
    assert "identity" in complaint


def test_a_kind_that_may_not_be_said_is_false_and_an_echo_is_not() -> None:
    performance = played(found("lost-write", [4]), found("phantom", [9]), gone=[4])
    (complaint,) = judge(DRILL, performance).complaints
    assert complaint.startswith("false")
    assert "phantom" in complaint
    assert judge(drill(Said("lost-write"), echoes=frozenset({"phantom"})), performance).complaints == ()


def test_a_drill_after_which_nothing_is_gone_proves_nothing() -> None:
    assert any("nothing is gone" in one for one in judge(DRILL, played(found("lost-write", []))).complaints)


def test_of_a_cut_the_first_place_of_each_partition_is_enough() -> None:
    cut = drill(Said("truncation", at="gone", how="first"), echoes=frozenset({"lost-write"}))
    assert judge(cut, played(found("truncation", [4]), gone=[4, 5])).complaints == ()
    assert judge(cut, played(found("truncation", [5]), gone=[4, 5])).complaints


def test_within_asks_for_no_false_place_and_not_for_all() -> None:
    within = drill(Said("poll-skip", at="gone", how="within"), echoes=frozenset({"lost-write"}))
    assert judge(within, played(found("poll-skip", [5]), gone=[4, 5])).complaints == ()
    assert judge(within, played(found("poll-skip", [6]), gone=[4, 5])).complaints


def test_places_that_a_step_named_are_held_against_what_is_said() -> None:
    forged = drill(Said("phantom", at="forged"))
    assert judge(forged, played(found("phantom", [7]), places={"forged": {place(7)}})).complaints == ()
    assert judge(forged, played(found("phantom", [8]), places={"forged": {place(7)}})).complaints


def test_late_is_told_and_is_not_wrong() -> None:
    verdict = judge(DRILL, played(found("lost-write", [4], after_s=10.1), gone=[4]))
    assert verdict.complaints == ()
    assert not verdict.detected[0].in_time
    assert judge(DRILL, played(found("lost-write", [4], after_s=9.9), gone=[4])).detected[0].in_time


def test_what_has_to_be_said_twice_has_a_time_for_each_and_once_is_not_enough() -> None:
    twice = drill(Said("lost-write"), Said("lost-write", after="the first"))
    first, second = found("lost-write", [4], after_s=2.0), found("lost-write", [4], after_s=7.0)
    both = played(second, first, found("lost-write", [4], after_s=2.5), gone=[4])
    both = dataclasses.replace(both, marks={**both.marks, "the first": first.at + 1})
    assert [one.after_s for one in judge(twice, both).detected] == [pytest.approx(2.0), pytest.approx(7.0)]
    once = dataclasses.replace(both, findings=(first, found("lost-write", [4], after_s=2.5)))
    assert judge(twice, once).complaints == ("missed: nothing was said of lost-write after the first",)


def test_only_the_severity_that_is_asked_for_counts() -> None:
    critical = drill(Said("lost-write", severity="critical"))
    assert judge(critical, played(found("lost-write", [4]), gone=[4])).complaints == ()
    assert judge(critical, played(found("lost-write", [4], severity="warning"), gone=[4])).complaints


def test_in_the_control_everything_that_may_not_be_said_is_false_and_so_is_a_loss() -> None:
    assert judge_control(played(), frozenset()).complaints == ()
    assert judge_control(played(found("isr-of-one")), frozenset({"isr-of-one"})).complaints == ()
    assert judge_control(played(found("isr-of-one")), frozenset()).complaints
    assert judge_control(played(gone=[1]), frozenset()).complaints

"""A verdict and partitions, several kinds of places, planned windows, and losses that nobody asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.drills.drill import Drill, Said
from canary.drills.rig.direct import Place
from canary.drills.rig.performance import Played
from canary.drills.rig.rig import Finding
from canary.drills.rig.verdict import judge, judge_control
from canary.probe.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = frozenset({("probes", 0)})


def finding(
    kind: str, partition: int, offset: int | None = None, *, topic: str = "probes", planned: bool = False
) -> Finding:
    records = {} if offset is None else {Place(topic, partition, offset): None}
    return Finding(kind, "critical", 1.0, "", records, (topic, partition), planned)


def played(*findings: Finding, gone: tuple[int, ...] = (), places: Mapping[str, set[Place]] | None = None) -> Played:
    lost = {Place("probes", 0, offset): Identity(1, 1, 0, offset) for offset in gone}
    return Played(findings, lost, places or {}, {}, (), 0.0, 2.0)


def drill(*says: Said, loses: bool = False) -> Drill:
    return Drill(title="", source="", steps=(), says=says, echoes=frozenset(), loses=loses)


def test_a_condition_is_said_of_its_partition_and_of_no_other() -> None:
    alone = drill(Said("isr-of-one", partitions=HERE))
    assert judge(alone, played(finding("isr-of-one", 0))).complaints == ()
    (missed, false) = judge(alone, played(finding("isr-of-one", 1))).complaints
    assert missed == "missed: isr-of-one is not said of probes-0"
    assert false == "false: isr-of-one is said of probes-1"


def test_places_of_several_names_are_one() -> None:
    elected = drill(Said("unclean-election", at=("gone", "ordered"), how="first"), Said("lost-write"))
    both = {"ordered": {Place("orders", 0, 7), Place("orders", 0, 8)}}
    lost, here, there = (
        finding("lost-write", 0, 4),
        finding("unclean-election", 0, 4),
        finding("unclean-election", 0, 7, topic="orders"),
    )
    assert judge(elected, played(lost, here, there, gone=(4, 5), places=both)).complaints == ()
    (missed,) = judge(elected, played(lost, here, gone=(4, 5), places=both)).complaints
    assert "orders-0@7" in missed


def test_what_is_found_in_a_planned_window_is_no_alarm() -> None:
    assert judge_control(played(finding("early-expiry", 0, planned=True)), frozenset()).complaints == ()
    assert judge_control(played(finding("early-expiry", 0)), frozenset()).complaints


def test_a_record_that_is_gone_by_nobodys_will_has_to_be_told() -> None:
    assert judge(drill(), played(gone=(4,))).complaints
    assert judge(drill(), played()).complaints == ()
    assert judge(drill(loses=True), played(gone=(4,))).complaints == ()
    assert judge_control(played(gone=(4,)), frozenset()).complaints
    assert judge_control(played(gone=(4,)), frozenset(), loses=True).complaints == ()

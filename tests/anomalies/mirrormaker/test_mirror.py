from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from canary.anomalies.mirrormaker import partition
from canary.anomalies.mirrormaker.facts import Anew, Answer, Checkpoint, PartitionRound, Round, Row
from canary.anomalies.mirrormaker.mirror import Link, Mirror
from canary.anomalies.mirrormaker.offsets import OffsetPairs, Translated
from canary.anomalies.violation import Violation
from canary.probe.identity import Identity

S = 10**9


@dataclass
class World:
    mirror: Mirror = field(default_factory=lambda: Mirror(Link("dc1", "probes", "dc1.probes", 60.0)))
    now_ns: int = 1_700_000_000 * S
    target: int = 0
    said: list[Violation] = field(default_factory=list)
    over: list[Violation] = field(default_factory=list)
    answer: Answer | None = None

    def source(self, *numbers: int) -> tuple[Row, ...]:
        return tuple(Row(100 + n, Identity(7, 0, 0, n), self.now_ns) for n in numbers)

    def copies(self, *numbers: int, whole: bool = True) -> tuple[Row, ...]:
        self.target += len(numbers)
        return tuple(
            Row(self.target - len(numbers) + at, Identity(7, 0, 0, n), self.now_ns, whole)
            for at, n in enumerate(numbers)
        )

    def round(
        self,
        source: tuple[Row, ...] = (),
        target: tuple[Row, ...] = (),
        *,
        complete: bool = True,
        restarted: Anew | None = None,
        hidden: tuple[int, int] | None = None,
        points: tuple[Checkpoint, ...] | None = (),
        after_s: float = 1,
    ) -> None:
        self.now_ns += round(after_s * S)
        news = PartitionRound(source, target, complete, target_complete=True, hidden=hidden, restarted=restarted)
        said, over = self.mirror.fold(Round(self.now_ns, {0: news}, points))
        for question in self.mirror.questions(self.now_ns):
            if self.answer is not None:
                said += self.mirror.confirm(question, self.answer, self.now_ns)
        self.said += said
        self.over += over

    def ended(self) -> list[Violation]:
        """Return what was said and has ended."""
        over = {one.key("dc2") for one in self.over}
        return [one for one in self.said if one.key("dc2") in over]

    @property
    def kinds(self) -> list[str]:
        return [one.kind for one in self.said]


def whole(*numbers: int, start: int = 0) -> Answer:
    return Answer(frozenset((100 + n, Identity(7, 0, 0, n)) for n in numbers), start, frozenset())


def test_a_gap_is_said_only_once_it_was_read_again() -> None:
    world = World()
    world.round(world.source(*range(9)), world.copies(0, 1, 5))
    for _ in range(20):
        world.round()
    assert world.said == [], "nobody could read it again"
    assert (world.mirror.view(world.now_ns).recovery_point_s or 0) > 20, "it still counts"
    world.answer = whole(*range(9))
    world.round()
    (gap,) = world.said
    assert gap.happened_after_ns is not None, "they were missing after they were sent"
    assert gap.happened_after_ns < world.now_ns - 20 * 10**9
    assert (gap.kind, gap.offset, gap.count, gap.evidence["expired_in_source"]) == ("mirror-gap", 102, 3, 0)
    assert gap.sentence.endswith("(3 records, offsets 102 to 104)")
    world.round(target=world.copies(6, 7, 8))
    assert world.mirror.view(world.now_ns).recovery_point_s == 0.0
    assert world.kinds == ["mirror-gap"]


def test_what_a_fresh_client_finds_between_the_copies_is_no_gap() -> None:
    world = World()
    world.round(world.source(*range(9)), world.copies(0, 1))
    world.target += 4  # offsets that the reader was not given
    world.round(target=world.copies(5), after_s=1)
    (question,) = world.mirror.questions(world.now_ns + 10 * S)
    assert (question.source, question.target) == ((102, 105), (2, 6))
    world.answer = Answer(whole(*range(9)).source, 0, frozenset(Identity(7, 0, 0, n) for n in (2, 3, 4)))
    world.round(after_s=11)
    assert world.said == []
    assert world.mirror.view(world.now_ns).counts["late"] == 3


def test_what_the_source_has_lost_itself_is_no_gap_and_what_it_expired_is_one() -> None:
    world = World()
    world.round(world.source(*range(9)), world.copies(0, 5))
    world.answer = whole(3, 4, 5, start=102)
    world.round(after_s=11)
    (gap,) = world.said
    assert (gap.offset, gap.count, gap.evidence["expired_in_source"]) == (101, 3, 1)
    assert [run.offset for run in gap.runs] == [101, 103], "102 is not there any more, and was not expired"
    assert world.mirror.view(world.now_ns).counts["withdrawn"] == 1


def test_a_source_without_new_probes_is_unknown_and_not_well() -> None:
    world = World()
    world.round(world.source(0, 1), world.copies(0, 1))
    assert world.mirror.view(world.now_ns).recovery_point_s == 0.0
    world.round(after_s=120)
    view = world.mirror.view(world.now_ns)
    assert (view.recovery_point_s, view.copied_ns) == (None, world.now_ns - 121 * S)
    assert view.unknown is not None
    assert "no new probe for 121 s" in view.unknown
    world.mirror.unanswered("no broker answers")
    assert world.mirror.view(world.now_ns).unknown == "no broker answers"


def test_a_log_that_is_not_read_to_its_end_is_unknown() -> None:
    world = World()
    world.round(world.source(0), world.copies(0, 1), complete=False)
    view = world.mirror.view(world.now_ns)
    assert (view.recovery_point_s, view.unknown) == (None, "partition 0: not read to the end yet")
    world.round(world.source(1))
    assert world.mirror.view(world.now_ns).recovery_point_s == 0.0
    assert world.said == []


def test_reading_anew_says_no_gap_twice_and_forgets_what_it_had_counted_on() -> None:
    world = World(answer=whole(*range(9)))
    world.round(world.source(*range(6)), world.copies(0, 3))
    world.round(after_s=11)
    assert world.kinds == ["mirror-gap"]
    world.target = 0
    world.round(world.source(*range(6)), world.copies(0, 3, 4), restarted="mirror")
    world.round(after_s=11)
    assert world.kinds == ["mirror-gap"]
    assert (world.mirror.view(world.now_ns).missing, world.mirror.view(world.now_ns).counts["unjudged"]) == (2, 2)
    world.round(target=world.copies(1, 2))
    assert world.ended() == world.said


def test_a_gap_that_was_said_and_is_filled_while_all_is_read_anew_has_ended_and_is_not_said_again() -> None:
    for copies in ((0, 3, 4, 1, 2), (0, 1, 2, 3, 4)):
        world = World(answer=whole(*range(9)))
        world.round(world.source(*range(6)), world.copies(0, 3))
        world.round(after_s=11)
        world.target = 0
        world.round(world.source(*range(6)), world.copies(*copies), restarted="mirror")
        world.round(after_s=11)
        assert world.kinds == ["mirror-gap"]
        assert world.ended() == world.said
        assert world.mirror.view(world.now_ns).missing == 0


def test_of_a_source_that_is_made_anew_everything_has_to_be_copied_and_of_a_new_mirror_what_was_not_copied_yet() -> (
    None
):
    whys: tuple[Anew, ...] = ("source", "mirror", "cut")
    for why in whys:
        world = World(answer=whole(*range(30)))
        world.round(world.source(*range(6)), world.copies(*range(6)))
        first = 10 if why == "source" else 0
        world.round(world.source(*range(first, 20)), world.copies(14, 15), restarted=why)
        world.round(after_s=11)
        (gap,) = world.said
        assert (gap.offset, gap.count) == ((110, 4) if why == "source" else (106, 8)), why
        assert world.mirror.view(world.now_ns).counts["unjudged"] == (0 if why == "source" else 6)


def test_a_partition_that_is_added_is_judged_from_its_first_record_on() -> None:
    world = World(answer=Answer(frozenset((n, Identity(7, 0, 1, n)) for n in range(9)), 0, frozenset()))
    world.round(world.source(0), world.copies(0))
    rows = tuple(Row(n, Identity(7, 0, 1, n), world.now_ns) for n in range(9))
    news = PartitionRound(rows, rows[4:], source_complete=True, target_complete=True)
    world.mirror.fold(Round(world.now_ns, {1: news}))
    world.round(after_s=11)
    assert [(gap.partition, gap.offset, gap.count) for gap in world.said] == [(1, 0, 4)]


def test_a_copy_that_is_there_before_its_transaction_ends_is_neither_foreign_nor_late() -> None:
    """MirrorMaker 2 reads uncommitted records unless it is told not to."""
    world = World()
    world.round(world.source(0, 1), world.copies(0, 1))
    world.round(target=world.copies(2, 3, 9), hidden=(102, 105))
    view = world.mirror.view(world.now_ns)
    assert (view.recovery_point_s, view.counts["foreign"]) == (0.0, 0)
    world.round(world.source(2), target=world.copies(6), hidden=(104, 107))
    world.round(world.source(3, 6), hidden=(108, 109))
    view = world.mirror.view(world.now_ns)
    assert (view.counts["copied"], view.counts["foreign"], view.counts["late"]) == (5, 1, 0), "9 was aborted"
    assert (view.recovery_point_s, view.waiting) == (0.0, 0)
    world.round(after_s=90, hidden=(108, 109))
    assert "transaction that is open" in (world.mirror.view(world.now_ns).unknown or "")
    assert world.said == []


def test_a_senders_clock_that_is_ahead_does_not_hide_that_it_fell_silent_and_one_behind_is_not_silent() -> None:
    for ahead_s in (-3600, 3600):
        world = World()
        for n in range(3):
            rows = tuple(row._replace(sent_ns=row.sent_ns + ahead_s * S) for row in world.source(n))
            world.round(rows, world.copies(n))
        assert world.mirror.view(world.now_ns).recovery_point_s == 0.0
        world.round(after_s=120)
        assert "no new probe for 120 s" in (world.mirror.view(world.now_ns).unknown or "")


def test_a_gap_that_another_process_has_said_ends_when_it_is_filled_and_is_not_said_again() -> None:
    former = World(answer=whole(*range(9)))
    former.round(former.source(*range(6)), former.copies(0, 3))
    former.round(after_s=11)
    for anew in (True, False):
        world = World(answer=whole(*range(9)))
        world.mirror.remember([replace(one, evidence={}) for one in former.said])
        world.mirror.remember(former.said)
        if anew:  # it is young enough to be found once more
            world.round(world.source(*range(6)), world.copies(0, 3))
        else:
            world.round(world.source(4, 5), world.copies(4, 5))
        world.round(after_s=11)
        assert (world.said, world.mirror.view(world.now_ns).missing) == ([], 2)
        world.round(target=world.copies(1, 2))
        assert [one.key("dc2") for one in world.over] == [one.key("dc2") for one in former.said]
        assert world.said == []


def test_of_a_source_that_is_made_anew_with_fewer_partitions_nothing_stays_unknown() -> None:
    world = World()
    news = PartitionRound(source_complete=True, target_complete=True)
    world.mirror.fold(Round(world.now_ns, {0: news, 1: news}))
    world.round(world.source(0), world.copies(0), restarted="source")
    assert world.mirror.view(world.now_ns).unknown is None


def test_a_copy_with_another_key_is_said_at_once() -> None:
    world = World()
    world.round(world.source(0), world.copies(0, whole=False))
    (changed,) = world.said
    assert (changed.kind, changed.evidence["why"], changed.offset) == ("mirror-gap", "changed", 100)


def test_a_transformation_that_changes_every_record_is_one_violation_a_minute() -> None:
    world = World()
    for first in range(0, 150, 50):
        world.round(world.source(*range(first, first + 50)), world.copies(*range(first, first + 50), whole=False))
    assert [(one.offset, one.count) for one in world.said] == [(100, 50)], "the first ones at once"
    world.round(after_s=60)
    assert [(one.offset, one.count, one.evidence["why"]) for one in world.said[1:]] == [(150, 100, "changed")]


def test_two_that_copy_the_same_topic_are_said_once_a_minute() -> None:
    world = World()
    for n in range(0, 360, 2):
        world.round(world.source(n, n + 1), world.copies(n, n, n + 1, n + 1))
    assert set(world.kinds) == {"mirror-copies"}
    assert 3 <= len(world.said) <= 4
    world.round(after_s=11)
    assert sum(one.evidence["copies"] for one in world.said) == 360


def test_copies_are_said_when_the_stretch_is_over() -> None:
    world = World()
    world.round(world.source(*range(9)), world.copies(*range(6)))
    world.round(target=world.copies(3, 4, 5))
    assert world.said == []
    world.round(target=world.copies(6))
    (copies,) = world.said
    assert (copies.kind, copies.severity, copies.offset) == ("mirror-copies", "info", 6)
    assert (copies.evidence["copies"], copies.evidence["source_offsets"]) == (3, [103, 105])
    world.round(target=world.copies(2))
    world.round(after_s=11)
    assert world.kinds == ["mirror-copies"] * 2, "nothing else came for a while"


def test_a_failover_that_would_skip_holds_for_a_while_before_it_is_said_and_ends() -> None:
    world = World()
    world.round(world.source(*range(9)), world.copies(*range(9)), points=(Checkpoint("g", 0, 104, 6),))
    assert world.said == []
    world.round(after_s=11)
    (skipping,) = world.said
    assert (skipping.offset, skipping.evidence["skips"], skipping.evidence["first_skipped_source_offset"]) == (
        6,
        2,
        104,
    )
    (ended,) = world.mirror.reported(world.now_ns + 5)
    assert (ended.key("dc2"), ended.at_ns) == (skipping.key("dc2"), world.now_ns + 5)
    world.round(target=world.copies(4, 5))
    assert world.ended() == [skipping], "they were copied again, behind it"
    assert world.over[0].at_ns == world.now_ns > skipping.at_ns
    world.round(points=None)
    assert world.mirror.view(world.now_ns).translation_unknown is not None


def test_so_many_wait_that_no_more_are_read_and_the_oldest_is_known_and_copies_again_cost_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition, "MOST_RUNS", 4)
    world = World(answer=whole(*range(9)))
    world.round(world.source(0), world.copies(0))
    for n in range(1, 5):
        world.now_ns += 60 * S  # each is a run of its own
        world.round(world.source(n), complete=n < 4)
    view = world.mirror.view(world.now_ns)
    assert (view.recovery_point_s, view.unknown) == (184.0, None)
    world.round(target=world.copies(0, 1, 3), complete=False)
    world.round(after_s=11)
    assert [(one.kind, one.offset) for one in world.said] == [("mirror-copies", 1), ("mirror-gap", 102)]
    assert world.mirror.view(world.now_ns).counts["unjudged"] == 0


def test_a_translated_offset_that_skips_nothing_is_judged_once_and_again_when_the_mirror_is_read_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged = []
    translated = OffsetPairs.translated

    def counted(pairs: OffsetPairs, point: Checkpoint) -> Translated:
        judged.append(point)
        return translated(pairs, point)

    monkeypatch.setattr(OffsetPairs, "translated", counted)
    world = World()
    world.round(world.source(*range(9)), world.copies(*range(5)), points=(Checkpoint("g", 0, 104, 6),))
    world.round(target=world.copies(5))
    assert len(judged) == 2, "its offset is not reached yet"
    world.round(target=world.copies(6, 7))
    world.round()
    assert (len(judged), world.mirror.view(world.now_ns).failovers[0].skips) == (4, 2)
    world.round(points=(Checkpoint("g", 0, 104, 4),))
    world.round()
    assert len(judged) == 5, "once more, and no more"
    world.target = 0
    world.round(world.source(*range(9)), world.copies(*range(9)), restarted="mirror")
    assert len(judged) == 6


def test_groups_that_come_and_go_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("canary.anomalies.mirrormaker.mirror._MOST_POINTS", 3)
    world = World()
    world.round(world.source(*range(9)), world.copies(*range(9)), points=(Checkpoint("g", 0, 104, 6),))
    world.round(after_s=11)
    assert world.kinds == ["mirror-offset-skips"]
    world.round(points=tuple(Checkpoint(f"g{n}", 0, 104, 4) for n in range(3)))
    assert [one.group for one in world.mirror.view(world.now_ns).failovers] == ["g0", "g1", "g2"]
    assert world.ended() == world.said


def test_memory_is_bounded_and_what_it_costs_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "MOST_RUNS", 4)
    world = World()
    world.round(world.source(0), world.copies(0))
    for n in range(1, 6):
        world.now_ns += 60 * S  # each is a run of its own
        world.round(world.source(n), complete=False)

    def full() -> bool:
        return world.mirror.partitions[0].full[0]

    assert full()
    world.round(target=world.copies(50), complete=False)
    assert not full(), "the mirror is further than the source may be read: the oldest are given up"
    assert world.mirror.view(world.now_ns).counts["unjudged"] == 2

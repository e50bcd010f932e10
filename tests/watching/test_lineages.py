"""What of leader epochs and high watermarks is news, and what is told to the tracker of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from canary.anomalies.online import Tracker
from canary.facts import TopologySeen
from canary.watching.elections.lineages import Lineages, Present

if TYPE_CHECKING:
    from canary.facts import EpochSeen

S = 10**9
PLACE = ("orders", 0)


class Told:
    def __init__(self) -> None:
        self.lineages = Lineages()
        self.now_ns = 0

    def look(
        self,
        epoch: int,
        end: int = -1,
        boundaries: tuple[tuple[int, int], ...] = (),
        topic_id: str = "a",
        leader: int = 1,
    ) -> list[tuple[int, int, int, int]]:
        """One round, 1 s later; return leader, epoch, start and end of what is told."""
        self.now_ns += S
        return [
            (one.leader, one.leader_epoch, one.start, one.end)
            for one in self.facts(epoch, end, boundaries, topic_id, leader)
        ]

    def facts(
        self, epoch: int, end: int, boundaries: tuple[tuple[int, int], ...], topic_id: str, leader: int
    ) -> list[EpochSeen]:
        presents = {PLACE: Present(topic_id, leader, epoch)}
        self.wanted = self.lineages.wanted(presents).get(PLACE)
        begun = {PLACE: list(boundaries)} if boundaries else {}
        return self.lineages.facts(self.now_ns, presents, begun, {PLACE: end} if end >= 0 else {})


def test_what_an_epoch_told_last_is_told_before_the_next_one() -> None:
    told = Told()
    assert told.look(4, 90, ((3, 0), (4, 60))) == [(-1, 3, 0, -1), (1, 4, 60, -1)]
    assert told.look(4, 100) == [(1, 4, 60, 100)]
    assert told.look(4, 110) == []
    assert told.look(4, 105) == [], "a leader that knows less"
    assert told.look(6, -1) == [], "no boundary yet: it is asked again"
    assert told.wanted == 4
    assert told.look(6, 130, ((4, 60), (5, 80), (6, 120)), leader=2) == [
        (1, 4, 60, 110),
        (-1, 5, 80, -1),
        (2, 6, 120, 130),
    ]
    assert told.look(6, 130) == []


def test_a_high_watermark_that_rises_is_told_twice_a_minute_and_the_first_one_at_once() -> None:
    told = Told()
    assert told.look(0, -1, ((0, 0),)) == [(1, 0, 0, -1)]
    assert told.look(0, 5) == [(1, 0, 0, 5)]
    news = [told.look(0, 6 + n) for n in range(61)]
    assert [len(one) for one in news].count(1) == 2


def test_a_lower_epoch_is_told_until_the_tracker_believes_it() -> None:
    told = Told()
    told.look(7, 100, ((7, 50),))
    assert [len(told.look(2, 10, ((2, 0),))) for _ in range(6)] == [1, 1, 1, 1, 1, 0]
    assert told.look(3, 20, ((2, 0), (3, 15))) == [(1, 2, 0, 10), (1, 3, 15, 20)]


def test_a_topic_that_is_made_again_is_another_one() -> None:
    told = Told()
    told.look(0, 100, ((0, 0),))
    assert told.look(0, 0, ((0, 0),), topic_id="b") == [(1, 0, 0, -1)]
    assert told.wanted == -1
    assert told.look(0, 0, topic_id="b") == [(1, 0, 0, 0)]
    told.lineages.forget({PLACE})
    assert told.lineages.places == set()


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=8),
    looks=st.sets(st.integers(0, 7)),
)
def test_orderly_elections_are_never_taken_for_a_cut_however_seldom_one_looks(
    lengths: list[int], looks: set[int]
) -> None:
    tracker, told = Tracker(), Told()
    starts: dict[int, int] = {}
    end = 0
    for epoch, length in enumerate(lengths):
        starts = {known: start for known, start in starts.items() if start < end} | {epoch: end}
        end += length
        if epoch in looks:
            for _ in range(2):
                told.now_ns += S
                tracker.fold(told.facts(epoch, end, tuple(sorted(starts.items())), "a", 1))
    assert tracker.drain().violations == []


@given(data=st.data())
def test_a_cut_below_what_was_told_is_always_found(data: st.DataObject) -> None:
    tracker, told = Tracker(), Told()
    high = data.draw(st.integers(1, 50))
    before = ((0, 0), (3, data.draw(st.integers(0, high))))
    for _ in range(2):
        tracker.fold(told.facts(3, high, before, "a", 1))
    cut = data.draw(st.integers(0, high - 1))
    later = sorted(data.draw(st.sets(st.integers(cut + 1, 200), max_size=3)))
    begun = tuple(enumerate([cut, *later], start=4))
    told.now_ns += S
    tracker.fold(told.facts(begun[-1][0], 200, begun, "a", 2))
    (found,) = tracker.drain().violations
    assert (found.kind, found.offset, found.evidence["cut"]) == ("offset-regression", cut, [cut, high])


def test_what_a_stalled_leader_answers_of_a_former_topic_is_not_taken_for_the_present_one() -> None:
    """The topic was made anew; its leader was stopped meanwhile, and answers by name for the log it still has."""
    tracker, told = Tracker(), Told()
    for topic_id, epoch, end, begun in (
        ("a", 0, 100, ((0, 0),)),
        ("a", 0, 100, ()),
        ("b", 0, 100, ((0, 0),)),
        ("b", 0, 5, ()),
        ("b", 1, 6, ((0, 0), (1, 5))),
    ):
        told.now_ns += S
        tracker.fold(told.facts(epoch, end, begun, topic_id, 1))
    assert tracker.drain().violations == []
    tracker.fold([TopologySeen(told.now_ns + second * S, 1, "probe") for second in range(602)])
    assert [one.kind for one in tracker.drain().violations] == ["topic-recreated"]

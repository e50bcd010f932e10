"""What is said of a group, round after round of what a cluster might tell."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.anomalies.groups.rounds import Groups, GroupView, PlaceView
from canary.anomalies.groups.sample import Commit, Log, Round, Told
from canary.anomalies.violation import Violation

S = 10**9
GROUP, TOPIC = "billing", "orders"
PATIENCE_S = 600.0


@dataclass
class World:
    """One partition and one group, told every 10 s."""

    groups: Groups = field(default_factory=lambda: Groups(PATIENCE_S, 50))
    now_ns: int = 1_700_000_000 * S
    log: Log = field(default_factory=lambda: Log(0, 1000))
    told: Told = field(default_factory=lambda: Told(members=2, commits={(TOPIC, 0): Commit(1000, 3)}))
    topic_id: str = "one"
    topics: bool = True
    whole: bool = True
    gone: bool = False
    said: list[Violation] = field(default_factory=list)
    ended: list[Violation] = field(default_factory=list)

    def at(self, offset: int, epoch: int | None = 3) -> None:
        self.told = replace(self.told, commits={(TOPIC, 0): Commit(offset, epoch)})

    def round(self, times: int = 1, *, written: int = 0, read: int = 0) -> None:
        """Let rounds pass; in each of them so many records are written, and committed by the group."""
        for _ in range(times):
            self.log = replace(self.log, end=self.log.end + written)
            if read:
                self.at(min(self.offset + read, self.log.end))
            self.now_ns += 10 * S
            groups = {} if self.gone else {GROUP: self.told}
            topics: dict[str, str | None] = {TOPIC: self.topic_id} if self.topics else {}
            logs = {(TOPIC, 0): self.log} if self.topics else {}
            found, over = self.groups.fold(Round(self.now_ns, groups, logs, topics, self.whole))
            self.said += found
            self.ended += over

    @property
    def offset(self) -> int:
        return self.told.commits[TOPIC, 0].offset

    @property
    def view(self) -> GroupView:
        (view,) = self.groups.views()
        return view

    @property
    def place(self) -> PlaceView:
        (place,) = self.view.places
        return place

    @property
    def kinds(self) -> list[tuple[str, str]]:
        return [(one.kind, one.severity) for one in self.said]


@pytest.fixture
def world() -> World:
    made = World()
    made.round(3, written=10, read=10)
    assert made.said == []
    return made


# lag


def test_lag_is_known_in_records_and_in_seconds(world: World) -> None:
    world.round(4, written=10)
    assert (world.place.committed, world.place.end, world.place.lag) == (1030, 1070, 40)
    assert (world.place.lag_s, world.place.at_least, world.place.state) == (40.0, False, "ok")
    assert (world.view.lag, world.view.lag_s, world.view.members) == (40, 40.0, 2)


def test_who_has_read_everything_has_no_lag(world: World) -> None:
    assert (world.place.lag, world.place.lag_s, world.place.state) == (0, 0.0, "ok")


def test_a_lag_from_before_the_first_look_is_at_least_as_long_as_we_look() -> None:
    world = World()
    world.at(10)
    world.round(4)
    assert (world.place.lag, world.place.lag_s, world.place.at_least) == (990, 30.0, True)
    assert world.view.at_least == 1


def test_without_an_answer_nothing_is_known_and_nothing_is_said(world: World) -> None:
    world.told = Told(error="GROUP_AUTHORIZATION_FAILED")
    world.round(200, written=10)
    assert (world.view.members, world.view.error, world.place) == (None, world.told.error, PlaceView(TOPIC, 0))
    assert world.view.states["unknown"] == 1
    assert world.said == []


def test_so_many_partitions_have_series_and_all_are_in_the_sums() -> None:
    groups = Groups(PATIENCE_S, 3)
    places = [(TOPIC, number) for number in range(10)]
    told = Told(members=1, commits={place: Commit(0, 0) for place in places})
    groups.fold(Round(S, {GROUP: told}, {place: Log(0, 7) for place in places}, {TOPIC: None}))
    (view,) = groups.views()
    assert (len(view.places), view.left_out, view.lag, sum(view.states.values())) == (3, 7, 70, 10)


# stuck


def test_a_partition_in_which_nothing_is_committed_while_records_come_is_stuck_and_said_once(world: World) -> None:
    world.round(60, written=10)
    assert world.said == []
    world.round(2, written=10)
    assert world.place.state == "stuck"
    (said,) = world.said
    assert (said.kind, said.severity, said.topic, said.evidence["group"]) == ("group-stuck", "warning", TOPIC, GROUP)
    assert said.evidence["partitions"][0]["committed"] == 1030
    assert "partition 0 of orders" in said.summary
    assert "transaction" not in said.summary
    world.round(10, written=10)
    assert len(world.said) == 1
    world.round(30, written=10)
    assert len({one.key("c") for one in world.said}) == 1  # repeated as the same
    assert len({one.evidence["since_ns"] for one in world.said}) == 1
    world.round(1, written=10, read=500)
    assert [one.key("c") for one in world.ended] == [said.key("c")]
    assert world.place.state == "ok"


def test_it_says_when_the_group_is_held_up_by_an_open_transaction(world: World) -> None:
    world.log = replace(world.log, stable=world.offset)
    world.round(70, written=10)
    assert "the last stable offset" in world.said[0].summary


def test_a_group_without_members_was_stopped_and_is_not_stuck(world: World) -> None:
    world.told = replace(world.told, members=0)
    world.round(500, written=10)
    assert (world.place.state, world.said) == ("stopped", [])


def test_a_lag_that_nothing_is_added_to_may_be_a_marker(world: World) -> None:
    world.round(1, written=1)
    world.round(500)
    assert (world.place.state, world.said) == ("unmoved", [])


def test_a_group_that_usually_takes_long_from_one_commit_to_the_next_gets_its_time() -> None:
    world = World()
    for _ in range(5):
        world.round(50, written=10)  # a checkpoint every 500 s
        world.round(1, written=10, read=510)
    world.round(120, written=10)
    assert world.said == []
    world.round(40, written=10)
    assert world.kinds == [("group-stuck", "warning")]


def test_time_in_which_the_cluster_does_not_answer_is_not_held_against_a_group(world: World) -> None:
    world.round(30, written=10)
    world.now_ns += 3600 * S
    world.round(20, written=10)
    assert world.said == []
    world.round(20, written=10)
    assert world.kinds == [("group-stuck", "warning")]


def test_a_rolling_restart_of_application_and_brokers_is_silent(world: World) -> None:
    for _ in range(3):
        world.told = replace(world.told, members=0)
        world.round(6, written=10)
        world.told = replace(world.told, members=2)
        world.round(3, written=10)
        before, world.told = world.told, Told(error="COORDINATOR_LOAD_IN_PROGRESS")
        world.round(5, written=10)
        world.told = before
        world.round(10, written=10, read=40)
    assert world.said == []


def test_a_group_that_cannot_be_seen_does_not_end_what_was_said_of_it(world: World) -> None:
    world.round(70, written=10)
    world.told, before = Told(error="no answer"), world.told
    world.round(5)
    assert (len(world.said), world.ended) == (1, [])
    world.told = before
    world.topics = False
    world.round(1)
    world.topics = True
    world.round(1)
    assert world.ended == [], "one broker may not know of the topic yet"
    world.topics = False
    world.round(2)
    assert len(world.ended) == 1


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 30)), min_size=10, max_size=200))
def test_a_group_that_reads_on_is_never_accused(rounds: list[tuple[int, int]]) -> None:
    world = World()
    world.at(900)
    for written, read in rounds:
        world.round(1, written=written, read=read)
    assert world.said == []


# reset


def test_a_group_that_goes_back_was_reset_and_that_is_said_once_it_is_certain(world: World) -> None:
    certain_ns = world.now_ns
    world.at(400)
    world.round(1)
    assert world.said == []
    world.round(5, written=10, read=10)
    (said,) = world.said
    assert said.happened_after_ns == certain_ns
    assert (said.kind, said.severity, said.partition, said.offset) == ("group-reset", "warning", 0, 1030)
    assert said.evidence["partitions"] == [{"partition": 0, "before": 1030, "now": 400}]
    assert world.place.state == "reset"


def test_the_answer_of_a_coordinator_of_former_times_is_no_reset(world: World) -> None:
    world.at(1010)
    world.round(1)
    world.at(1030)
    world.round(5, written=10, read=10)
    world.at(1010)
    world.round(1)
    world.at(1090)
    world.round(3, written=10)
    assert world.said == []


def test_a_reset_of_a_stopped_group_whose_commits_never_had_an_epoch_is_an_operators() -> None:
    world = World()
    world.at(900, epoch=None)
    world.told = replace(world.told, members=0)
    world.round(3)
    world.at(100, epoch=None)
    world.round(3)
    assert world.kinds == [("group-reset", "info")]


@pytest.mark.parametrize("to", [0, 400, 1090])
def test_a_reset_by_an_operator_is_said_as_such(world: World, to: int) -> None:
    world.told = replace(world.told, members=0)
    world.round(6, written=10)
    world.at(to, epoch=None)
    world.round(3)
    world.told = replace(world.told, members=2)
    world.round(3, written=10, read=10)
    assert world.kinds == [("group-reset", "info")]


def test_a_group_that_reads_on_between_two_looks_without_a_member_was_not_moved(world: World) -> None:
    world.told = replace(world.told, members=0)
    for _ in range(20):
        world.round(2, written=10)
        world.at(world.log.end)  # a job that came, read everything, and went
        world.round(1)
    assert world.said == []


def test_a_group_that_never_has_members_commits_as_it_likes() -> None:
    world = World(told=Told(members=0, simple=True, commits={(TOPIC, 0): Commit(500, 3)}))
    world.round(2)
    world.at(700, epoch=None)
    world.round(100, written=10)
    assert (world.said, world.place.state) == ([], "unmoved")


def test_a_committed_offset_beyond_the_end_is_said_once(world: World) -> None:
    world.at(5000)
    world.round(10)
    assert world.kinds == [("group-reset", "warning")]
    assert (world.place.committed, world.place.lag, world.place.lag_s) == (None, None, None)


def test_records_that_were_deleted_before_the_group_had_read_them_are_told_of(world: World) -> None:
    world.log = replace(world.log, start=1200, end=1300)
    world.round(3)
    assert world.said == []
    world.at(1250)
    world.round(1)
    (said,) = world.said
    assert (said.kind, said.offset) == ("group-reset", 1030)
    assert "deleted before the group had read them" in said.summary


def test_a_topic_that_was_made_again_is_no_reset(world: World) -> None:
    world.topic_id, world.log = "two", Log(0, 50)
    world.at(20)
    world.round(5, written=1, read=1)
    assert world.said == []


def test_partitions_that_are_reset_together_are_one_violation() -> None:
    groups = Groups(PATIENCE_S, 50)
    places = [(TOPIC, number) for number in range(150)]
    logs = {place: Log(0, 100) for place in places}
    found = []
    for number, offset in enumerate((90, 0, 0)):
        told = Told(members=1, commits={place: Commit(offset, 1) for place in places})
        found += groups.fold(Round(number * 10 * S, {GROUP: told}, logs, {TOPIC: None}))[0]
    (said,) = found
    assert (said.partition, said.evidence["count"], len(said.evidence["partitions"])) == (None, 150, 100)
    assert "150 partitions of orders" in said.summary


# expired


@pytest.mark.parametrize(("members", "behind", "severity"), [(2, 0, "warning"), (0, 30, "warning"), (0, 0, "info")])
def test_offsets_that_are_gone_while_the_topic_lives_have_expired(
    world: World, members: int, behind: int, severity: str
) -> None:
    world.told = replace(world.told, members=members)
    world.round(1, written=behind)
    world.told = replace(world.told, commits={})
    world.round(1)
    assert world.said == []
    world.round(20)
    assert world.kinds == [("group-offsets-expired", severity)]
    assert (world.place.state, world.place.lag, world.said[0].evidence["partitions"][0]["before"]) == (
        "expired",
        None,
        1030,
    )


def test_a_group_that_is_deleted_is_told_of_and_then_forgotten(world: World) -> None:
    world.gone = True
    world.round(2)
    assert world.kinds == [("group-offsets-expired", "info")]
    assert world.groups.views() == ()
    assert not world.groups._ends


def test_a_group_that_a_silent_broker_may_know_of_is_unknown_and_not_deleted(world: World) -> None:
    world.gone, world.whole = True, False
    world.round(5)
    assert world.said == []
    assert world.view.error is not None


def test_a_topic_that_is_deleted_takes_its_offsets_along(world: World) -> None:
    world.topics = False
    world.told = replace(world.told, commits={})
    world.round(5)
    assert world.said == []


def test_a_group_that_begins_anew_below_where_it_was_is_told_of_as_a_reset_too(world: World) -> None:
    world.told, before = replace(world.told, commits={}), world.told
    world.round(3)
    world.told = before
    world.at(5)
    world.round(3)
    assert world.kinds == [
        ("group-offsets-expired", "info" if not before.members else "warning"),
        ("group-reset", "warning"),
    ]

"""What the topology's changes mean, and what they do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.online.topology.watched_incarnations import doubted

if TYPE_CHECKING:
    from canary.anomalies.topology_change import TopologyChange
    from canary.anomalies.violation import Violation

S = 1_000_000_000


@dataclass
class Cluster:
    """A cluster's metadata, changed by hand and told as the watcher does: changes only."""

    tracker: Tracker = field(default_factory=Tracker)
    now_ns: int = 1_000 * S
    sample: int = 0
    brokers: tuple[int, ...] = (1, 2, 3)
    controller: int | None = 9
    """None: any broker, another one each time, as KRaft's tell."""
    partitions: dict[tuple[str, int], tuple[int, str, str]] = field(default_factory=dict)
    told: dict[tuple[str, int], tuple[int, str, str]] = field(default_factory=dict)
    ours: tuple[str, ...] = ("probes",)
    extents: tuple[Literal["probe", "all"], ...] = ("probe", "all")
    open: dict[str, Violation] = field(default_factory=dict)
    said: list[tuple[str, str, int | None]] = field(default_factory=list)
    changes: list[TopologyChange] = field(default_factory=list)

    def fold(self, *facts: f.Fact) -> None:
        self.tracker.fold(facts)
        findings = self.tracker.drain()
        for v in findings.violations:
            if v.key("t") not in self.open:
                self.said.append((v.kind, v.topic, v.partition))
            self.open[v.key("t")] = v
        for v in findings.ended:
            assert v.key("t") in self.open, f"{v.kind} ended and was never said"
            del self.open[v.key("t")]
        self.changes += findings.changes

    def set(self, topic: str, partition: int, leader: int, isr: str, replicas: str = "1,2,3") -> None:
        self.partitions[topic, partition] = (leader, replicas, isr)

    def round(self, seconds: float = 1.0) -> None:
        self.now_ns += int(seconds * S)
        self.sample += 1
        n, s = self.now_ns, self.sample
        facts: list[f.Fact] = [f.WatchAsked(n, s)]
        controller = self.controller if self.controller is not None else self.brokers[s % len(self.brokers)]
        facts.append(f.ClusterSeen(n, s, "cluster", ",".join(map(str, self.brokers)), controller))
        for name in self.ours:
            count = sum(key[0] == name for key in self.partitions)
            facts.append(f.TopicSeen(n, s, name, "id-1", count))
        for (name, number), state in self.partitions.items():
            if self.told.get((name, number)) != state:
                self.told[name, number] = state
                leader, replicas, isr = state
                kind = f.PartitionSeen if name in self.ours else f.WatchedPartition
                facts.append(kind(n, s, name, number, leader, replicas, isr))
        facts += [f.TopologySeen(n, s, extent) for extent in self.extents]
        self.fold(*facts)

    def rounds(self, n: int) -> None:
        for _ in range(n):
            self.round()

    def kinds(self) -> list[str]:
        return sorted(v.kind for v in self.open.values())


def cluster(min_isr: int = 1) -> Cluster:
    made = Cluster()
    made.fold(f.RunnerStarted(made.now_ns, "canary-0", "test"))
    made.set("probes", 0, 1, "1,2,3")
    made.set("orders", 0, 1, "1,2,3")
    made.round()
    made.fold(
        f.TopicConfigured(made.now_ns, "probes", -1, -1, "delete", min_isr),
        f.WatchedConfigured(made.now_ns, "orders", min_isr),
    )
    made.rounds(3)
    assert made.said == []
    return made


def test_one_replica_alone_is_said_after_ten_seconds_and_ends_when_another_is_back() -> None:
    c = cluster()
    for topic in ("probes", "orders"):
        c.set(topic, 0, 1, "1")
    c.rounds(10)
    assert c.said == []
    c.rounds(1)
    (alone,) = c.open.values()
    assert (alone.kind, alone.topic, alone.topic_id, alone.severity) == ("isr-of-one", "probes", "id-1", "warning")
    c.rounds(589)
    assert {topic for _, topic, _ in c.said} == {"probes"}
    c.rounds(1)
    alone = next(v for v in c.open.values() if (v.kind, v.topic) == ("isr-of-one", "orders"))
    assert (alone.topic_id, alone.severity) == ("", "warning")
    for topic in ("probes", "orders"):
        c.set(topic, 0, 1, "1,2,3")
    c.round()
    assert c.kinds() == []


def test_a_broker_that_takes_minutes_to_restart_is_no_news_of_topics_with_two_replicas() -> None:
    """Two replicas and min.insync.replicas=1: one is in sync while the broker of the other one restarts."""
    c = cluster()
    c.fold(f.WatchedConfigured(c.now_ns, "pairs", 1))
    for away in (0, 1, 0, 2, 0, 3, 0):  # 0: all are there
        for number, pair in enumerate(((1, 2), (2, 3), (1, 3))):
            isr = [broker for broker in pair if broker != away]
            c.set("pairs", number, isr[0], ",".join(map(str, isr)), ",".join(map(str, pair)))
        c.rounds(330 if away else 5)
    assert c.said == []


def test_one_replica_alone_that_may_acknowledge_nothing_is_no_isr_of_one() -> None:
    c = cluster(min_isr=2)
    c.set("probes", 0, 1, "1")
    c.rounds(60)
    assert c.said == []


def test_one_replica_by_design_is_none() -> None:
    c = cluster()
    c.set("single", 0, 2, "2", "2")
    c.fold(f.WatchedConfigured(c.now_ns, "single", 1))
    c.rounds(700)
    assert c.said == []


def test_replicas_out_of_sync_for_ten_minutes_are_three_conditions_and_end_each() -> None:
    c = cluster(min_isr=2)
    c.set("probes", 0, 1, "1")
    c.rounds(600)
    assert c.said == []
    c.rounds(2)
    assert c.kinds() == ["isr-below-half", "under-min-isr", "under-replicated"]
    severities = {v.kind: v.severity for v in c.open.values()}
    assert severities == {"under-min-isr": "critical", "isr-below-half": "warning", "under-replicated": "warning"}
    c.set("probes", 0, 1, "1,3")
    c.round()
    assert c.kinds() == ["under-replicated"]
    c.set("probes", 0, 1, "1,2,3")
    c.round()
    assert c.kinds() == []


def test_a_partition_without_a_leader_is_offline_and_an_election_is_not() -> None:
    c = cluster()
    c.set("probes", 0, -1, "1")
    c.rounds(4)
    c.set("probes", 0, 2, "2,3")
    c.rounds(3)
    c.set("probes", 0, 1, "1,2,3")
    c.rounds(3)
    assert [kind for kind, _, _ in c.said if kind == "offline-partition"] == []
    c.set("probes", 0, -1, "2")
    c.rounds(7)
    (offline,) = c.open.values()
    assert offline.kind == "offline-partition"
    assert "do not elect uncleanly" in offline.summary


def test_what_nobody_watched_is_no_time_that_a_condition_held() -> None:
    c = cluster()
    c.set("probes", 0, 1, "1")
    c.rounds(2)
    c.round(600.0)  # the brokers did not answer for ten minutes
    c.rounds(2)
    assert c.said == []


def test_a_rolling_restart_is_nothing_of_any_severity() -> None:
    c = cluster()
    for broker in (1, 2, 3):
        others = [b for b in (1, 2, 3) if b != broker]
        rest = ",".join(map(str, others))
        for topic in ("probes", "orders"):
            c.set(topic, 0, -1 if broker == 1 else others[0], rest if broker != 1 else "1,2,3")
        c.round()
        c.brokers = tuple(others)
        for topic in ("probes", "orders"):
            c.set(topic, 0, others[0], rest)
        c.rounds(60)
        c.brokers = (1, 2, 3)
        for topic in ("probes", "orders"):
            c.set(topic, 0, others[0], "1,2,3")
        c.rounds(3)
    assert c.said == []
    events = [event["event"] for event in c.tracker.state.topology.events]
    assert events == ["broker-left", "broker-returned"] * 3


def test_a_leader_of_whom_none_was_in_sync_is_suspected_and_the_suspicion_ends_when_all_are_back() -> None:
    c = cluster(min_isr=2)
    c.set("orders", 0, 1, "1")
    c.rounds(2)
    c.set("orders", 0, 2, "2")
    c.rounds(4)
    ((kind, topic, _),) = c.said
    (suspected,) = c.open.values()
    assert (kind, topic, suspected.severity) == ("unclean-election", "orders", "info")
    assert suspected.evidence["election"]["former_isr"] == [1]
    c.set("orders", 0, 2, "1,2,3")
    c.rounds(130)
    assert c.kinds() == []


def test_a_reassignment_is_no_unclean_election() -> None:
    c = cluster()
    c.set("orders", 0, 4, "4,5,6", "4,5,6")
    c.rounds(30)
    assert c.said == []


def test_nothing_is_suspected_of_an_election_that_nobody_watched() -> None:
    c = cluster(min_isr=2)
    c.set("orders", 0, 1, "1")
    c.rounds(2)
    c.tracker = Tracker.load(c.tracker.dump())
    c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"))
    c.told.clear()
    c.set("orders", 0, 2, "2")
    c.now_ns += 300 * S
    c.rounds(10)
    assert c.said == []


def test_ten_thousand_partitions_without_a_leader_are_a_hundred_and_one_violations() -> None:
    c = cluster()
    for number in range(5_000):
        c.set("many", number, -1, "1")
    c.rounds(10)
    many = [v for v in c.open.values() if v.kind == "offline-partition"]
    assert len(many) == 101
    (rest,) = (v for v in many if v.topic == "")
    assert rest.evidence["count"] == 4_900
    for number in range(5_000):
        c.set("many", number, 1, "1,2,3")
    c.round()
    assert c.kinds() == []


def test_an_epoch_that_goes_back_and_stays_so_is_said_and_a_leader_of_yesterday_is_not() -> None:
    c = cluster()

    def epoch(number: int) -> None:
        c.round()
        c.fold(f.Listed(c.now_ns, c.sample, "probes", 0, 0, 0, 0, number))

    for number in (7, 8, 7, 7, 8, 8):
        epoch(number)
    assert c.said == []
    for _ in range(5):
        epoch(3)
    assert c.said == [("leader-epoch-regression", "probes", 0)]


def listed(c: Cluster, end: int, epoch: int = 0, topic_id: str = "o-1") -> None:
    c.round()
    c.fold(f.WatchedListed(c.now_ns, c.sample, "orders", topic_id, 0, 0, end, end, epoch))


def stays(c: Cluster, end: int, epoch: int, topic_id: str) -> None:
    """Another id is given, and for half a minute no other one."""
    for _ in range(32):
        listed(c, end, epoch, topic_id)


def test_an_end_that_goes_back_is_an_offset_regression_at_the_new_end() -> None:
    c = cluster()
    for end, epoch in ((100, 1), (120, 1), (80, 2), (80, 2)):
        listed(c, end, epoch)
    (found,) = c.open.values()
    assert (found.kind, found.severity, found.partition, found.offset) == ("offset-regression", "critical", 0, 80)
    assert found.evidence["end_before"] == 120


def test_a_topic_made_again_is_said_once_though_some_broker_still_tells_its_former_id_or_it_was_gone_for_a_while() -> (
    None
):
    c = cluster()
    listed(c, 100, 0, "o-1")
    listed(c, 5, 0, "o-2")
    given_ns = c.now_ns
    for topic_id, end in (("o-1", 100), ("o-2", 6), ("o-1", 100), ("o-2", 7)):
        listed(c, end, 0, topic_id)
    assert c.said == []
    stays(c, 8, 0, "o-2")
    assert c.said == [("topic-recreated", "orders", None)]
    (said,) = c.open.values()
    assert said.happened_before_ns == given_ns, "when it was given first"
    for topic_id, end in (("o-1", 100), ("o-2", 9), ("o-1", 100), ("o-2", 10)):
        listed(c, end, 0, topic_id)
    c.fold(f.WatchedGone(c.now_ns, c.sample, "orders"))
    del c.partitions["orders", 0], c.told["orders", 0]
    c.rounds(20)
    c.set("orders", 0, 1, "1,2,3")
    for end in (0, 1, 2):
        stays(c, end, 0, "o-3")
    assert c.said == [("topic-recreated", "orders", None)] * 2


def test_a_broker_that_gives_another_id_of_a_watched_topic_makes_it_no_other_one_and_hides_no_cut() -> None:
    c = cluster()
    for turn in range(100):
        listed(c, 100 + turn, 0, "lie" if turn % 3 == 2 else "o-1")
    assert c.said == []
    assert list(doubted(c.tracker.state)) == [], "nobody watches it"
    c.tracker.state.topology.watched.names.append("orders")
    assert [one.topic for one in doubted(c.tracker.state)] == ["orders"]
    for turn in range(48):
        listed(c, 80, 0, "lie" if turn % 3 == 2 else "o-1")
    assert c.said == [("offset-regression", "orders", 0)]
    for _ in range(40):
        listed(c, 80, 0, "o-1")
    assert (len(c.said), list(doubted(c.tracker.state))) == (1, []), "the question is over"


def test_a_topic_that_a_frozen_broker_gives_its_former_id_for_long_is_judged_meanwhile() -> None:
    c = cluster()
    listed(c, 100, 0, "o-1")
    stays(c, 5, 0, "o-2")
    for end, epoch, topic_id in ((100, 0, "o-1"), (50, 1, "o-2"), (100, 0, "o-1"), (40, 1, "o-2"), (100, 0, "o-1")):
        listed(c, end, epoch, topic_id)
    for _ in range(16):
        listed(c, 40, 1, "o-2")
        listed(c, 100, 0, "o-1")
    assert c.said == [("topic-recreated", "orders", None), ("offset-regression", "orders", 0)]


def test_a_question_about_a_topics_id_survives_a_restart_and_ends_with_the_topic() -> None:
    c = cluster()
    listed(c, 100, 0, "o-1")
    listed(c, 5, 0, "o-2")
    c.tracker = Tracker.load(c.tracker.dump())
    c.rounds(60)
    assert c.said == [], "nobody gives any id meanwhile"
    stays(c, 5, 0, "o-2")
    assert c.said == [("topic-recreated", "orders", None)]
    listed(c, 5, 0, "o-3")
    c.fold(f.WatchedGone(c.now_ns, c.sample, "orders"))
    assert list(doubted(c.tracker.state)) == []


def test_the_first_end_of_a_topic_made_again_may_be_a_stalled_leaders_of_the_former_one() -> None:
    c = cluster()
    for topic_id, end in (("o-1", 100), ("o-2", 100), ("o-2", 5), ("o-2", 5), ("o-2", 6)):
        listed(c, end, 0, topic_id)
    stays(c, 6, 0, "o-2")
    assert c.said == [("topic-recreated", "orders", None)]
    for end in (4, 4):
        listed(c, end, 0, "o-2")
    assert c.said[1:] == [("offset-regression", "orders", 0)]


def test_ends_are_watched_on_after_an_epoch_that_went_back() -> None:
    """As of a topic that was made again in a cluster that tells no topic ids."""
    c = cluster()
    listed(c, 1000, 7, "")
    for _ in range(6):
        listed(c, 10, 1, "")
    assert c.said == [("leader-epoch-regression", "orders", 0)]
    for end in (50, 30, 30):
        listed(c, end, 1, "")
    assert c.said[1:] == [("offset-regression", "orders", 0)]


def test_two_looks_within_a_moment_are_one_unless_the_leader_is_a_newer_one() -> None:
    c = cluster()

    def look(end: int, epoch: int, topic_id: str, seconds: float) -> None:
        c.round(seconds)
        c.fold(f.WatchedListed(c.now_ns, c.sample, "orders", topic_id, 0, 0, end, end, epoch))

    look(100, 0, "o-1", 1)
    for _ in range(5):
        look(3, 0, "o-1", 0.1)  # the next incarnation's end, told with the former id
    look(3, 0, "o-2", 0.1)
    stays(c, 3, 0, "o-2")
    assert [kind for kind, _, _ in c.said] == ["topic-recreated"]
    look(50, 1, "o-2", 1)
    look(40, 2, "o-2", 0.1)
    look(40, 2, "o-2", 0.1)
    assert [kind for kind, _, _ in c.said] == ["topic-recreated", "offset-regression"]


def test_an_end_that_went_back_under_a_new_leader_and_grew_over_the_place_is_said_too() -> None:
    c = cluster()
    for end, epoch in ((100, 1), (80, 2), (130, 2)):
        listed(c, end, epoch)
    assert [(v.kind, v.offset) for v in c.open.values()] == [("offset-regression", 80)]


def test_answers_of_yesterday_retention_and_another_incarnation_are_no_regression() -> None:
    c = cluster()
    for end, epoch in ((100, 1), (110, 2), (100, 1), (100, 1), (112, 2), (90, 2), (113, 2)):
        listed(c, end, epoch)
    assert c.said == []
    stays(c, 5, 0, "o-2")
    listed(c, 6, 0, "o-2")
    assert c.said == [("topic-recreated", "orders", None)]


def test_an_unclean_election_with_a_cut_is_critical_at_the_first_offset_gone() -> None:
    c = cluster(min_isr=2)
    listed(c, 100, 1)
    c.set("orders", 0, 1, "1")
    listed(c, 150, 1)
    c.set("orders", 0, 2, "2")
    listed(c, 90, 2)
    listed(c, 95, 2)
    found = {v.kind: v for v in c.open.values() if v.severity == "critical"}
    assert sorted(found) == ["offset-regression", "unclean-election"]
    assert found["unclean-election"].offset == found["offset-regression"].offset == 90
    assert found["unclean-election"].evidence["proof"] == "offset-regression"


def test_only_changes_are_told_to_the_store() -> None:
    c = cluster()
    c.rounds(50)
    before = len(c.changes)
    c.rounds(50)
    assert len(c.changes) == before
    c.set("orders", 0, 2, "2,3")
    c.round()
    (change,) = c.changes[before:]
    assert (change.subject, change.topic, change.number, change.leader, change.isr) == (
        "partition",
        "orders",
        0,
        2,
        "2,3",
    )


def test_conditions_survive_a_restart_and_end_after_it() -> None:
    c = cluster()
    c.set("probes", 0, 1, "1")
    c.rounds(12)
    assert c.kinds() == ["isr-of-one"]
    c.tracker = Tracker.load(c.tracker.dump())
    c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"))
    c.told.clear()
    c.set("probes", 0, 1, "1,2,3")
    c.round()
    assert c.kinds() == []


def test_a_broker_id_at_another_host_is_evidence_in_what_is_found_then() -> None:
    c = cluster()
    c.fold(f.BrokerSeen(c.now_ns, c.sample, 1, "a:9092", None))
    c.fold(f.BrokerSeen(c.now_ns, c.sample, 1, "b:9092", None))
    assert c.said == []
    c.set("probes", 0, -1, "1")
    c.rounds(7)
    (offline,) = c.open.values()
    event = offline.evidence["cluster_events"][-1]
    assert (event["event"], event["former"], event["address"]) == ("broker-id-reused", "a:9092", "b:9092")
    assert [change.detail for change in c.changes if change.subject == "broker"] == ["a:9092", "b:9092"]


def returned_empty(c: Cluster) -> None:
    """Broker 2 is gone for 20 s, comes back, and has nothing in sync."""
    c.fold(f.BrokerSeen(c.now_ns, c.sample, 2, "b:9092", None))
    for topic in ("probes", "orders"):
        c.set(topic, 0, 1, "1,3")
    c.brokers = (1, 3)
    c.rounds(20)
    c.brokers = (1, 2, 3)
    c.rounds(1)


def test_a_broker_back_with_an_empty_disk_is_in_the_timeline_and_in_what_is_found_and_nothing_by_itself() -> None:
    c = cluster(min_isr=2)
    returned_empty(c)
    c.rounds(28)
    assert [change.detail for change in c.changes if change.subject == "broker"] == ["b:9092", "", "b:9092"]
    c.rounds(40)
    c.set("probes", 0, 1, "1,2,3")  # one of its replicas has been filled again
    c.rounds(2)
    assert c.said == []
    assert [change.detail for change in c.changes if change.subject == "broker"][2:] == [
        "b:9092",
        "b:9092, none of its 2 replicas in sync",
        "b:9092",
    ]
    c.set("orders", 0, -1, "1")
    c.rounds(7)
    (offline,) = (v for v in c.open.values() if v.kind == "offline-partition")
    told = [{k: v for k, v in one.items() if k != "at_ns"} for one in offline.evidence["cluster_events"]]
    assert told == [
        {"event": "broker-left", "broker": 2},
        {"event": "broker-returned", "broker": 2, "away_s": 20},
        {"event": "broker-refilling", "broker": 2, "replicas": 2, "away_s": 20},
        {"event": "broker-refilled", "broker": 2, "took_s": 70},
    ]


def test_a_broker_that_refills_is_seen_also_where_no_other_topic_is_watched() -> None:
    c = cluster(min_isr=2)
    c.extents = ("probe",)
    returned_empty(c)
    c.rounds(30)
    assert c.tracker.state.topology.events[-1]["event"] == "broker-refilling"


def test_a_broker_back_and_in_sync_within_half_a_minute_was_only_away() -> None:
    c = cluster(min_isr=2)
    returned_empty(c)
    c.rounds(5)
    for topic in ("probes", "orders"):
        c.set(topic, 0, 1, "1,2,3")
    c.rounds(100)
    assert [event["event"] for event in c.tracker.state.topology.events] == ["broker-left", "broker-returned"]


def test_a_broker_that_joins_is_evidence() -> None:
    c = cluster()
    c.brokers = (1, 2, 3, 4)
    c.rounds(2)
    (event,) = c.tracker.state.topology.events
    assert (event["event"], event["broker"]) == ("broker-joined", 4)


def test_a_controller_is_believed_that_is_told_again_and_again_and_krafts_random_one_never_is() -> None:
    c = cluster()
    c.controller = None
    c.rounds(500)
    assert [change for change in c.changes if change.subject == "controller"] == []
    assert c.tracker.state.topology.events == []
    for controller in (2, 3):
        c.controller = controller
        c.rounds(41)
    assert [change.leader for change in c.changes if change.subject == "controller"] == [2, 3]
    assert c.changes[-1].at_ns == c.now_ns - 40 * S, "since it was first told"
    (event,) = c.tracker.state.topology.events
    assert (event["event"], event["from"], event["to"]) == ("controller-changed", 2, 3)
    c.brokers, c.controller = (1,), 1
    c.rounds(100)
    assert len(c.tracker.state.topology.events) == 3, "two left; the last one can name itself only"


def test_the_timeline_has_the_leader_epoch_as_soon_as_it_is_told() -> None:
    c = cluster()
    listed(c, 100, 4)
    c.rounds(5)
    c.set("orders", 0, 2, "2,3")
    listed(c, 100, 4)  # of the leader before
    listed(c, 100, 5)
    listed(c, 101, 5)
    told = [(one.leader, one.isr, one.leader_epoch) for one in c.changes if one.topic == "orders"]
    assert told == [(1, "1,2,3", None), (1, "1,2,3", 4), (2, "2,3", None), (2, "2,3", 5)]
    listed(c, 101, 6)  # the next leader's, told a moment before it
    c.set("orders", 0, 3, "2,3")
    listed(c, 101, 6)
    assert (c.changes[-1].leader, c.changes[-1].leader_epoch) == (3, 6)


def test_what_clients_were_told_long_ago_is_no_evidence() -> None:
    c = cluster()
    c.fold(f.ClientError(c.now_ns, "watcher", "_TRANSPORT", "old", fatal=False))
    c.rounds(700)
    c.fold(f.ClientError(c.now_ns, "watcher", "_TRANSPORT", "fresh", fatal=False))
    for topic in ("probes", "orders"):
        c.set(topic, 0, -1, "1")
    c.rounds(7)
    assert len(c.open) == 2
    assert [[one["error"] for one in v.evidence["client_errors"]] for v in c.open.values()] == [["fresh"]] * 2


def test_an_empty_isr_is_no_excuse_for_a_leader_who_was_not_in_the_last_one() -> None:
    """With eligible leader replicas the ISR empties when the last of it is gone."""
    c = cluster(min_isr=1)
    c.set("orders", 0, 1, "1")
    c.rounds(3)
    c.set("orders", 0, -1, "")
    c.rounds(7)
    (offline,) = c.open.values()
    assert "last in sync: brokers 1." in offline.summary
    c.set("orders", 0, 2, "2")
    c.rounds(4)
    (suspected,) = (v for v in c.open.values() if v.kind == "unclean-election")
    assert suspected.evidence["election"]["former_isr"] == [1]


def test_a_leader_who_left_the_isr_when_nothing_could_be_acknowledged_any_more_is_eligible() -> None:
    c = cluster(min_isr=2)
    for leader, isr in ((1, "1,2"), (1, "1"), (-1, ""), (2, "2")):
        c.set("orders", 0, leader, isr)
        c.rounds(4)
    assert c.said == []
    for leader, isr in ((-1, ""), (3, "3")):  # 3 left while 1 and 2 acknowledged
        c.set("orders", 0, leader, isr)
        c.rounds(4)
    assert [kind for kind, _, _ in c.said] == ["unclean-election"]


def test_whoever_was_in_the_full_isr_is_eligible_if_nothing_could_be_acknowledged_since() -> None:
    c = cluster(min_isr=2)
    for leader, isr in ((1, "1"), (-1, ""), (3, "3")):
        c.set("orders", 0, leader, isr)
        c.rounds(4)
    assert c.said == []


def test_nothing_is_suspected_of_an_election_while_the_cluster_did_not_answer() -> None:
    c = cluster(min_isr=2)
    c.set("orders", 0, 1, "1")
    c.rounds(2)
    c.set("orders", 0, 2, "2")
    c.round(20.0)
    c.rounds(10)
    assert c.said == []

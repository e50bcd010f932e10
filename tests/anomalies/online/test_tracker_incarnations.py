"""A topic that is made again, a producer that is looked up, a cluster in sync: what carries over, and what does not."""

from __future__ import annotations

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.online.losses import other_id
from canary.anomalies.online.losses.questions import Reread
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.state import OtherId
from canary.anomalies.online.wanted import OTHER_ID
from canary.metrics import measured
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench


def made_again(bench: Bench) -> None:
    bench.topic_id, bench.log, bench.start, bench.end, bench.epoch = "incarnation-2", {}, 0, 0, 0
    bench.round()


def seen(bench: Bench, topic_id: str | None, partitions: int = 1) -> None:
    bench.fold(f.TopicSeen(bench.now_ns, bench.sample, TOPIC, topic_id, partitions))


def test_what_was_known_of_a_log_says_nothing_of_that_of_the_next_incarnation() -> None:
    bench = Bench()
    bench.write(50)
    bench.settle(2)
    made_again(bench)
    bench.round()
    log = bench.tracker.state.topics[TOPIC].logs[0]
    assert log.full_isr_end == 0
    assert log.low_end is None


@pytest.mark.parametrize(("first", "then"), [(None, "one"), ("one", None), ("one", "one")])
def test_a_topic_id_that_is_not_told_is_no_other_one(first: str | None, then: str | None) -> None:
    bench = Bench(topic_id=first)
    bench.write(3)
    seen(bench, then)
    bench.topic_id = then
    bench.settle()
    assert bench.found() == []


def test_a_former_id_is_accepted_once_all_brokers_agree_on_it() -> None:
    """Metadata was restored: the topic is the first one again, and what was promised since is void."""
    bench = Bench()
    first = bench.topic_id
    made_again(bench)
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, "idempotent", PRODUCER, 2, bench.topic_id))
    second = bench.topic_id
    seen(bench, first)
    since_ns = bench.tracker.state.now_ns
    seen(bench, first)
    (shown,) = measured(bench.tracker.state).topics
    assert (shown.topic_id, shown.other_id, shown.other_since_ns) == (second, first, since_ns)
    assert [kind for kind, *_ in bench.found()].count("topic-recreated") == 1
    bench.fold(f.TopicSeen(bench.now_ns, 0, TOPIC, first, 1, agreed=True))
    (shown,) = measured(bench.tracker.state).topics
    assert (shown.topic_id, shown.other_id, shown.other_since_ns) == (first, None, None)
    assert [kind for kind, *_ in bench.found()].count("topic-recreated") == 2
    assert bench.tracker.state.topics[TOPIC].dead_ids == [second]
    seen(bench, second)  # now that one is of yesterday
    assert bench.tracker.state.topics[TOPIC].topic_id == first


def test_an_id_that_was_never_seen_is_no_other_topic_while_a_fetch_gives_the_last_promise() -> None:
    """All brokers give a wrong id for a minute; what is lost then is found when they give the right one."""
    bench = Bench()
    bench.write(10)
    bench.settle(2)
    known, bench.topic_id, asked = bench.topic_id, "never-seen", bench.tracker.state.next_request
    del bench.log[4]
    bench.epoch += 1
    bench.settle(60)
    assert bench.found() == []
    assert bench.tracker.state.next_request <= asked + 14  # one question in five seconds
    (shown,) = measured(bench.tracker.state).topics
    assert (shown.topic_id, shown.other_id, shown.other_is_former) == (known, "never-seen", False)
    bench.topic_id = known
    bench.settle()
    assert bench.found() == [("lost-write", 4, 4)]


def test_a_topic_of_which_no_log_is_read_may_be_another_one() -> None:
    """It is unknown until a fetch is answered: no promise is void, and none is lost."""
    bench = Bench()
    bench.write(10)
    bench.settle(2)
    bench.answering = False
    made_again(bench)
    bench.settle(20)
    assert bench.found() == []
    assert bench.tracker.state.topics[TOPIC].topic_id == "incarnation-1"
    assert len({one.request_id for one in bench.requests if one.reason == OTHER_ID}) == 1
    bench.answering = True
    bench.settle(1)
    (found,) = bench.violations.values()
    assert (found.kind, found.severity, found.evidence["promises_voided"]) == ("topic-recreated", "critical", 10)


def test_an_answer_with_the_present_id_ends_the_doubt_about_a_former_one() -> None:
    bench = Bench()
    first = bench.topic_id
    made_again(bench)
    seen(bench, first)
    (shown,) = measured(bench.tracker.state).topics
    assert shown.other_id == first
    seen(bench, bench.topic_id)
    assert bench.tracker.state.topics[TOPIC].other is None


def test_producers_of_other_topics_go_on_when_one_is_made_again() -> None:
    bench = Bench()
    bench.fold(f.GenerationBegan(bench.now_ns, "other", "idempotent", 5, 3))
    made_again(bench)
    assert bench.tracker.state.topics[TOPIC].first_generations == {PRODUCER: 2}


@pytest.mark.parametrize(("partitions", "renewed"), [(1, []), (2, [TOPIC]), (0, [])])
def test_clients_are_renewed_when_partitions_are_added_and_none_ever_goes(partitions: int, renewed: list[str]) -> None:
    bench = Bench()
    for listed in (partitions, 1, partitions):  # a broker that does not know all of them lists fewer
        seen(bench, bench.topic_id, listed)
        assert bench.renewed == renewed
        assert bench.tracker.state.topics[TOPIC].partitions == max(partitions, 1)


def test_only_a_cluster_in_sync_vouches_for_what_was_promised() -> None:
    bench = Bench()
    bench.write(10)
    log = bench.tracker.state.topics[TOPIC].logs[0]
    for isr, vouched in (("1,2", 0), ("1,2,3", 10)):
        bench.sample += 1
        bench.fold(f.WatchAsked(bench.now_ns, bench.sample))
        bench.write(5)  # after the question
        bench.fold(f.PartitionSeen(bench.now_ns, bench.sample, TOPIC, 0, 1, "1,2,3", isr))
        assert log.full_isr_end == (vouched and vouched + 5)


def test_of_what_nobody_knew_only_what_the_store_does_not_know_is_a_phantom() -> None:
    bench = Bench()
    for generation in (4, 5, 6):
        bench.fold(f.Polled(bench.now_ns, RC, RC, TOPIC, 0, generation, 500, generation, 0))
    bench.looked_up(500, 5)
    assert bench.found() == [("phantom", 6, 0)]


def test_a_committed_transaction_has_not_become_doubtful_by_a_restart() -> None:
    bench = Bench(mode="transactional")
    bench.fold(f.TransactionBegan(bench.now_ns, bench.mode, PRODUCER, 1, 0))
    bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 1, 0, bench.mode, 0))
    bench.ack(0, *bench.append(0))
    assert bench.tracker.state.transactions[PRODUCER, 1, 0].outcome == "open"
    bench.restart()
    assert bench.tracker.state.transactions[PRODUCER, 1, 0].outcome == "indeterminate"


def test_what_was_looked_for_is_asked_for_again_by_the_next_process() -> None:
    bench = Bench()
    bench.write(3)
    del bench.log[1]
    bench.answering = False
    bench.poll()
    assert len(bench.requests) == 1
    bench.restart()
    bench.answering = True
    bench.settle()
    assert bench.found() == [("lost-write", 1, 1)]


def test_an_unplaced_probe_is_asked_for_again_by_the_next_process() -> None:
    bench = Bench()
    bench.write(1)
    (sequence,) = bench.send()
    bench.ack(sequence, None)
    bench.end += 1  # there it may stand
    bench.write(1)
    bench.answering = False
    bench.poll()
    bench.round()
    assert len(bench.requests) == 1
    bench.restart()
    bench.answering = True
    bench.settle()
    assert bench.found() == [("lost-write", -1, sequence)]


def test_a_low_end_before_a_restart_is_not_confirmed_by_one_after_it() -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    bench.round()
    bench.end = 3
    bench.round()
    bench.restart()
    bench.end = 10
    bench.positions = {RC: 10, RU: 10}
    bench.settle()
    assert bench.found("truncation") == []


def test_a_topic_that_is_gone_is_gone_since_it_was_missed_first() -> None:
    bench = Bench()
    for _ in range(2):
        bench.fold(f.TopicGone(bench.now_ns, bench.sample, TOPIC))
    first = bench.tracker.state.topics[TOPIC].gone_since_ns
    assert first is not None
    assert first < bench.now_ns - 1_000_000


FIRST, SECOND = "incarnation-1", "incarnation-2"


def renewed(bench: Bench, topic_id: str | None) -> None:
    """A client has to be made anew: another generation begins, marked for an incarnation of the topic."""
    bench.generation += 1
    bench.sequence = 0
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, bench.mode, PRODUCER, bench.generation, topic_id))


def pass_over(bench: Bench, reader: str, start: int, end: int) -> None:
    """A consumer is given records that bear the mark of another incarnation than its own: nobody's."""
    bench.fold(
        *(f.Refused(bench.now_ns, reader, reader, TOPIC, 0, o, "foreign", "its tag") for o in range(start, end)),
        f.EndOfPartition(bench.now_ns, reader, reader, TOPIC, 0, end),
    )


@pytest.mark.parametrize("former", [FIRST, None], ids=str)
@pytest.mark.parametrize("mode", ["idempotent", "transactional"])
def test_a_generation_that_began_under_the_former_incarnation_promises_nothing_in_this_one(
    mode: str, former: str | None
) -> None:
    bench = Bench(mode=mode, topic_id=former)
    seen(bench, FIRST)  # brokers were upgraded if they did not tell it before
    made_again(bench)
    renewed(bench, former)  # before anybody was told to go on in the new one
    key = (PRODUCER, bench.generation, 0)
    bench.fold(f.TransactionBegan(bench.now_ns, bench.mode, *key))
    bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, bench.generation, 0, mode, 0 if mode != "idempotent" else None))
    bench.end = 1  # it stands there, and nobody knows it for ours
    bench.ack(0, 0)
    bench.fold(f.Committed(bench.now_ns, *key))
    renewed(bench, SECOND)
    for reader in (RC, RU):
        bench.put(reader, 0, SECOND)
    for sequence in bench.send(3) if mode == "idempotent" else []:
        bench.ack(sequence, *bench.append(sequence))
    bench.settle()
    assert bench.found() == [("topic-recreated", -1, -1)]
    assert bench.tracker.state.topics[TOPIC].promises == (3 if mode == "idempotent" else 0)


def test_a_generation_that_knew_no_topic_id_promises_in_a_topic_that_was_not_made_again() -> None:
    bench = Bench(topic_id=None)
    bench.topic_id = FIRST  # brokers were upgraded
    bench.round()
    renewed(bench, bench.marked_id)
    bench.write(3)
    del bench.log[1]
    bench.settle()
    assert bench.found() == [("lost-write", 1, 1)]


def test_a_generation_of_the_incarnation_of_now_promises_whatever_there_was_before() -> None:
    bench = Bench()
    made_again(bench)
    renewed(bench, SECOND)
    for reader in (RC, RU):
        bench.put(reader, 0, SECOND)
    bench.write(3)
    del bench.log[1]
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", 1, 1)]


def test_a_position_in_the_former_incarnation_is_no_sign_that_this_one_was_cut() -> None:
    bench = Bench()
    bench.write(20)
    bench.poll()
    made_again(bench)
    renewed(bench, SECOND)
    for reader in (RC, RU):
        bench.astray(reader)
        bench.put(reader, 0, SECOND)
    bench.write(30)
    del bench.log[25]
    bench.settle()
    assert bench.found() == [("lost-write", 25, 25), ("topic-recreated", -1, -1)]


@pytest.mark.parametrize("former", [FIRST, None], ids=str)
@pytest.mark.parametrize("told", [True, False])
def test_who_reads_for_the_former_incarnation_has_passed_nothing_of_this_one(*, told: bool, former: str | None) -> None:
    bench = Bench(topic_id=former)
    seen(bench, FIRST)
    bench.write(20)
    bench.poll()
    made_again(bench)
    bench.end = 7  # written under the former generation: nobody's
    if told:
        bench.astray(RC)
        bench.fold(f.Positioned(bench.now_ns, RC, RC, TOPIC, 0, 5, "reset", former))
    pass_over(bench, RC, 5, 7)
    assert (
        bench.tracker.state.topics[TOPIC].logs.get(0) is None or not bench.tracker.state.topics[TOPIC].logs[0].readers
    )
    renewed(bench, SECOND)
    bench.end = 5
    bench.write(2)
    pass_over(bench, RC, 5, 7)
    bench.round()
    for reader in (RC, RU):
        bench.put(reader, 0, SECOND)
    bench.settle()
    assert bench.found() == [("topic-recreated", -1, -1)]


def test_who_reads_for_this_incarnation_and_skips_is_seen_by_its_acknowledgement_alone() -> None:
    bench = Bench()
    made_again(bench)
    renewed(bench, SECOND)
    bench.write(5)
    for reader in (RC, RU):
        bench.put(reader, 0, SECOND)
    bench.hidden = {2}
    bench.settle()
    assert bench.found("poll-skip") == [("poll-skip", 2, 2)]


def test_a_topic_whose_id_became_known_is_recognised_when_it_is_made_again() -> None:
    bench = Bench(topic_id=None)
    bench.write(40)
    bench.settle(2)
    bench.topic_id = "incarnation-1"  # brokers were upgraded
    bench.settle(2)
    assert (bench.found(), bench.renewed) == ([], [])
    made_again(bench)
    bench.positions = {RC: 0, RU: 0}
    bench.settle()
    assert [kind for kind, *_ in bench.found()] == ["topic-recreated"]
    assert bench.renewed == [TOPIC]


@pytest.mark.parametrize("first", [None, "incarnation-1"])
def test_the_tag_of_our_records_is_that_of_the_id_that_was_known_first(first: str | None) -> None:
    bench = Bench(topic_id=first)
    bench.topic_id = "incarnation-1"
    bench.restart()
    (topic,) = measured(bench.tracker.state).topics
    assert (topic.topic_id, topic.marked_id) == ("incarnation-1", first)
    made_again(bench)
    (topic,) = measured(bench.tracker.state).topics
    assert (topic.topic_id, topic.marked_id) == ("incarnation-2", "incarnation-2")


def gone(bench: Bench, seconds: int) -> None:
    """Every answer of so many rounds, one a second, says that there is no such topic."""
    for _ in range(seconds):
        bench.sample += 1
        bench.now_ns += 10**9
        bench.fold(
            f.WatchAsked(bench.now_ns, bench.sample),
            f.ClusterSeen(bench.now_ns, bench.sample, "cluster", "1,2,3"),
            f.TopicGone(bench.now_ns, bench.sample, TOPIC),
        )


def void(bench: Bench) -> list[tuple[str, str, int]]:
    """Return what was said about void promises: kind, severity, how many."""
    return [(one.kind, one.severity, one.evidence["promises_voided"]) for one in bench.said]


def holding(mode: str = "idempotent") -> Bench:
    """Return a bench with a topic that holds 46 promises: 50 were made, 3 have expired and 1 is known as lost."""
    bench = Bench(mode=mode)
    bench.write(49)
    del bench.log[20]
    bench.settle()
    bench.start = 3
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, 1, -1, "delete", 2))
    bench.settle(2)
    (unplaced,) = bench.send()
    bench.ack(unplaced, None)
    bench.said.clear()
    return bench


def test_the_promises_of_a_topic_that_is_gone_for_good_are_void_and_counted_once() -> None:
    bench = holding()
    gone(bench, 10)
    assert void(bench) == [], "a single broker may not know of it"
    gone(bench, 30)
    assert void(bench) == [("promises-void", "critical", 46)]
    (found,) = bench.said
    assert (found.topic, found.topic_id, found.happened_after_ns) == (
        TOPIC,
        FIRST,
        bench.tracker.state.topology.topics[TOPIC].seen_ns,
    )
    assert "46 acknowledged and unexpired promises" in found.summary
    bench.tracker = Tracker.load(bench.tracker.dump())
    gone(bench, 3)
    made_again(bench)
    assert void(bench)[1:] == [("topic-recreated", "warning", 46)], "it is said already"


def test_a_topic_that_is_made_again_before_anybody_missed_it_is_critical_if_it_held_promises() -> None:
    bench = holding()
    gone(bench, 5)
    made_again(bench)
    assert void(bench) == [("topic-recreated", "critical", 46)]


def test_a_topic_that_held_nothing_is_made_again_with_a_warning() -> None:
    bench = holding()
    bench.put(RC, 49)
    bench.log[49] = (PRODUCER, 1, 49)
    bench.end = 50
    bench.settle()
    bench.start = 50
    bench.settle()
    bench.said.clear()
    gone(bench, 20)
    assert void(bench) == []
    assert bench.tracker.state.topics[TOPIC].over_ns is not None, "so it is made again"
    made_again(bench)
    assert void(bench) == [("topic-recreated", "warning", 0)]


def test_a_topic_that_acknowledges_or_comes_back_with_its_id_is_not_over() -> None:
    bench = holding()
    for _ in range(20):
        gone(bench, 1)
        bench.write()
    assert void(bench) == []
    gone(bench, 8)
    bench.round()
    gone(bench, 8)
    assert void(bench) == []
    assert not bench.tracker.state.topics[TOPIC].voided


@pytest.mark.parametrize("seconds", [0, 20])
def test_what_nobody_had_read_of_a_topic_that_is_over_is_unverified_once(seconds: int) -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    bench.write(7)
    gone(bench, seconds)
    made_again(bench)
    assert sum(one.unverified.get("idempotent", 0) for one in bench.tracker.state.meters.values()) == 7
    assert void(bench)[0][2] == 17


def test_one_record_that_is_lost_is_no_other_topic() -> None:
    bench = Bench()
    bench.write(12)
    bench.settle(2)
    known, bench.topic_id = bench.topic_id, "never-seen"
    del bench.log[11]
    bench.settle(8)
    assert bench.found("topic-recreated") == []
    bench.topic_id, bench.epoch = known, 1
    bench.settle()
    assert bench.found() == [("lost-write", 11, 11)]


def test_a_broker_that_gives_the_former_id_once_more_hides_no_topic_that_was_made_again() -> None:
    bench = Bench()
    bench.write(12)
    bench.settle(2)
    bench.log, bench.end, bench.epoch = {}, 0, 0
    bench.write(5)
    bench.round()
    bench.topic_id = "incarnation-2"
    bench.settle(2)
    assert [kind for kind, *_ in bench.found("topic-recreated")] == ["topic-recreated"]


def test_what_is_asked_is_what_was_promised_while_brokers_gave_the_id_for_half_a_minute() -> None:
    bench = Bench()
    for _ in range(100):
        bench.write(1)
        bench.round()
    (kept,) = bench.tracker.state.topics[TOPIC].last_promised.values()
    assert [one.number for one in kept] == [10, 10]
    assert 30 <= bench.end - kept[0].offset - kept[0].number < 65


def test_an_id_that_comes_without_the_partitions_that_hold_promises_is_another_one_once_all_brokers_agree() -> None:
    """There is no log to ask, and an answer may lack partitions and give another id."""
    bench = Bench()
    bench.write(3)
    bench.settle(2)
    bench.answering = False
    seen(bench, "incarnation-2", 0)
    assert bench.found() == []
    bench.fold(f.TopicSeen(bench.now_ns, 0, TOPIC, "incarnation-2", 0, agreed=True))
    assert [kind for kind, *_ in bench.found()] == ["topic-recreated"]


def test_the_first_answer_of_a_process_is_told_for_the_probe_log_which_may_have_it_in_doubt() -> None:
    bench = Bench()
    tracker = Tracker.load(bench.tracker.dump())
    seen_again = f.TopicSeen(bench.now_ns, 9, TOPIC, bench.topic_id, 1)
    tracker.fold([f.RunnerStarted(bench.now_ns, "canary-0", "test"), f.WatchAsked(bench.now_ns, 9), seen_again])
    (told,) = tracker.drain().agreed
    assert (told.topic_id, told.sample, told.agreed) == (bench.topic_id, 0, True)
    tracker.fold([told, seen_again])
    assert tracker.drain().agreed == []


def test_a_topic_that_was_over_is_another_one_without_a_fetch() -> None:
    """What it held is void already: no promise stands in the way of the one that the canary makes."""
    bench = Bench()
    bench.write(3)
    bench.settle(2)
    for _ in range(2):
        bench.fold(f.TopicGone(bench.now_ns, bench.sample, TOPIC))
        bench.now_ns += 11 * 10**9
    bench.answering = False
    seen(bench, "incarnation-2")
    assert [kind for kind, *_ in bench.found()] == ["promises-void", "topic-recreated"]


def test_all_logs_that_were_asked_decide_together() -> None:
    bench = Bench()
    bench.write(3)
    topic = bench.tracker.state.topics[TOPIC]
    topic.other = OtherId("never-seen", 1, bench.now_ns)
    waits, scope = Reread(0, 1, OTHER_ID, 0), Scope(bench.tracker.state)
    topic.logs[0].rereads[99], asked = waits, [[0, 3, 0, 0, 0, 0, 0, 0]]
    other_id.fetched(scope, topic, Reread(0, 3, OTHER_ID, 0, asked), answered=True)
    assert scope.found.agreed == []
    del topic.logs[0].rereads[99]
    other_id.fetched(scope, topic, Reread(0, 3, OTHER_ID, 0, asked), answered=True)
    assert [one.topic_id for one in scope.found.agreed] == ["never-seen"]

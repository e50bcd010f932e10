"""Another cluster answers for a while: nothing is judged by it, and all goes on where the known one answers again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.metrics import measured
from simulation.destruction.probed import positions
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench

if TYPE_CHECKING:
    from collections.abc import Callable

    from canary.anomalies.violation import RereadRequest


def settled() -> Bench:
    bench = Bench()
    bench.write(10)
    bench.settle()
    return bench


def slip(bench: Bench) -> None:
    """A round that another cluster answers, topic and all."""
    bench.sample += 1
    bench.fold(f.WatchAsked(bench.now_ns, bench.sample))
    bench.fold(
        f.ClusterSeen(bench.now_ns, bench.sample, "another", "1"),
        f.TopicSeen(bench.now_ns, bench.sample, TOPIC, "elsewhere", 1),
        f.Listed(bench.now_ns, bench.sample, TOPIC, 0, 0, 3, 3, 9),
    )


def back(bench: Bench) -> None:
    """The next process (or the same one) has asked the cluster, and begins: consumers where they stood."""
    for name in (RC, RU):
        bench.positions[name] = positions(bench.tracker, TOPIC, name)[0]
    bench.restart()
    bench.settle()


def unseen(bench: Bench) -> int:
    (partition,) = measured(bench.tracker.state).partitions
    return sum(consumer.unseen for consumer in partition.consumers.values())


def kinds(bench: Bench) -> list[str]:
    return [kind for kind, _, _ in bench.found()]


def test_it_is_said_once_and_nothing_is_judged_until_a_process_begins_again() -> None:
    bench = settled()
    slip(bench)
    assert [violation.kind for violation in bench.said] == ["another-cluster"]
    state = bench.tracker.state
    assert state.stopped is not None
    assert not measured(state).topics[0].fresh
    folded = state.ordinal
    slip(bench)
    bench.write(3)
    assert len(bench.said) == 1
    assert state.ordinal == folded + 4 + 6
    assert bench.tracker.drain().stopped is None
    back(bench)
    assert bench.tracker.state.stopped is None
    bench.write(5)
    bench.settle()
    assert kinds(bench) == ["another-cluster"]
    assert unseen(bench) == 0
    bench.truncate(bench.end - 2)
    bench.settle()
    assert kinds(bench).count("lost-write") == 2


def test_a_snapshot_of_a_stopped_cluster_goes_on_with_the_next_start() -> None:
    bench = settled()
    slip(bench)
    bench.tracker = Tracker.load(bench.tracker.dump())
    back(bench)
    bench.truncate(8)
    bench.settle()
    assert kinds(bench).count("lost-write") == 2


@pytest.mark.parametrize("offset", [10_000, 4, None], ids=["higher", "taken", "unknown"])
def test_what_was_acknowledged_since_the_known_cluster_answered_promises_nothing(offset: int | None) -> None:
    """The other log is longer, or shorter: its offsets are not ours."""
    bench = settled()
    for i, sequence in enumerate(bench.send(3)):
        bench.ack(sequence, None if offset is None else offset + i)
    slip(bench)
    back(bench)
    assert kinds(bench) == ["another-cluster"]
    assert unseen(bench) == 0
    assert bench.tracker.state.topics[TOPIC].logs[0].known_end == 10
    bench.truncate(3)  # and what the known cluster had acknowledged is still promised
    bench.settle()
    assert {offset for kind, offset, _ in bench.found() if kind == "lost-write"} == set(range(3, 10))


def test_an_acknowledgement_after_the_question_may_be_of_another_cluster_than_the_answer() -> None:
    bench = settled()
    bench.sample += 1
    bench.fold(f.WatchAsked(bench.now_ns, bench.sample))
    (sequence,) = bench.send()
    bench.ack(sequence, 10)
    bench.fold(f.ClusterSeen(bench.now_ns, bench.sample, "cluster", "1,2,3"))
    slip(bench)
    back(bench)
    assert kinds(bench) == ["another-cluster"]


def test_what_the_other_cluster_acknowledged_may_stand_elsewhere_in_the_known_one() -> None:
    bench = settled()
    (sequence,) = bench.send()
    bench.ack(sequence, 700)
    slip(bench)
    bench.append(sequence)
    back(bench)
    assert kinds(bench) == ["another-cluster"]
    assert measured(bench.tracker.state).suspects == 0


def test_nothing_is_asked_for_that_the_other_cluster_would_answer() -> None:
    bench = settled()
    bench.write(5)
    bench.fold(
        f.EndOfPartition(bench.now_ns, RC, RC, TOPIC, 0, 15),
        f.WatchAsked(bench.now_ns, bench.sample + 1),
        f.ClusterSeen(bench.now_ns, bench.sample + 1, "another", "1"),
    )
    bench.fold(f.Tick(bench.now_ns))
    assert bench.requests == []


def test_what_the_known_cluster_acknowledged_before_it_answered_last_stays_promised() -> None:
    bench = settled()
    bench.write(4)
    bench.round()
    slip(bench)
    bench.truncate(12)
    back(bench)
    assert {offset for kind, offset, _ in bench.found() if kind == "lost-write"} == {12, 13}


def test_what_was_read_is_of_the_known_cluster_whenever_it_was_acknowledged() -> None:
    bench = settled()
    bench.write(4)
    bench.poll()
    slip(bench)
    bench.truncate(12)
    back(bench)
    assert {offset for kind, offset, _ in bench.found() if kind == "lost-write"} == {12, 13}


def foreign(bench: Bench, *names: str) -> None:
    """Consumers are given the other cluster's records, from where they stood."""
    for name in names:
        for offset in range(10, 40):
            bench.fold(f.Refused(bench.now_ns, name, name, TOPIC, 0, offset, "foreign", "another tag"))
        bench.fold(f.EndOfPartition(bench.now_ns, name, name, TOPIC, 0, 40))


def cut(bench: Bench) -> None:
    """The other log ends below where they stood."""
    for name in (RC, RU):
        bench.fold(f.OutOfRange(bench.now_ns, name, name, TOPIC, 0, 10, "out of range"))
        bench.fold(f.Positioned(bench.now_ns, name, name, TOPIC, 0, 3, "reset"))
        bench.fold(f.EndOfPartition(bench.now_ns, name, name, TOPIC, 0, 3))


def reread(bench: Bench) -> None:
    """A confirmation that was on its way is answered by the other cluster, which holds nothing of ours."""
    bench.fold(f.OutOfRange(bench.now_ns, RC, RC, TOPIC, 0, 10, "out of range"))
    for r in bench.requests:
        place = (RC, TOPIC, 0, r.start, r.end, r.end)
        bench.fold(f.RereadEnded(bench.now_ns, r.request_id, *place, complete=True))
    bench.requests.clear()


@pytest.mark.parametrize("met", [lambda bench: foreign(bench, RC, RU), lambda bench: foreign(bench, RC), cut, reread])
def test_what_consumers_met_in_the_other_cluster_is_no_suspicion(met: Callable[[Bench], None]) -> None:
    bench = settled()
    bench.answering = False
    offsets = bench.write(30)
    bench.round()
    met(bench)
    slip(bench)
    assert positions(bench.tracker, TOPIC, RC) == {0: 10}
    assert bench.tracker.state.topics[TOPIC].logs[0].cut is None
    bench.answering = True
    back(bench)
    assert kinds(bench) == ["another-cluster"]
    assert unseen(bench) == 0
    bench.truncate(offsets[0])
    bench.settle()
    assert {offset for kind, offset, _ in bench.found() if kind == "lost-write"} == set(offsets)


def test_a_group_that_stands_elsewhere_in_the_other_cluster_has_not_gone_back() -> None:
    bench = settled()
    bench.fold(f.GroupOffset(bench.now_ns, "group-0", TOPIC, 0, 900, "committed"))
    slip(bench)
    back(bench)
    bench.fold(f.GroupOffset(bench.now_ns, "group-0", TOPIC, 0, 5, "fetched"))
    bench.settle()
    assert kinds(bench) == ["another-cluster"]


def test_all_that_another_cluster_may_have_acknowledged_is_taken_back_however_many_partitions_there_are() -> None:
    """For three seconds another cluster acknowledges what is sent to 5,000 partitions in turn."""
    bench = settled()
    partitions, seconds = range(1, 5001), 3
    for sequence in range(seconds):
        facts: list[f.Fact] = []
        for p in partitions:
            facts.append(f.Sent(bench.now_ns, TOPIC, p, PRODUCER, 1, sequence, "idempotent"))
            facts.append(f.Acked(bench.now_ns, TOPIC, p, PRODUCER, 1, sequence, sequence, 2_000_000))
        bench.fold(*facts)
    topic = bench.tracker.state.topics[TOPIC]
    assert topic.promises == 10 + len(partitions) * seconds
    slip(bench)
    assert topic.promises == 10
    assert [log.known_end for log in topic.logs.values()] == [10, *(0 for _ in partitions)]
    assert all(stream.indeterminate.total == seconds for stream in topic.streams[1:])


def test_unsure_acknowledgements_are_one_interval_for_each_round_whose_answer_may_still_come() -> None:
    bench = settled()
    (stream,) = bench.tracker.state.topics[TOPIC].streams
    for _ in range(50):
        bench.write(2)
        bench.round()
    assert [list(acked) for acked in stream.unsure.values()] == []
    for _ in range(50):
        bench.write(2)
        bench.write(3)
        bench.sample += 1
        bench.fold(f.WatchAsked(bench.now_ns, bench.sample))  # which nobody answers
        bench.end += 1  # a marker
    before, *rounds = stream.unsure.values()
    assert list(before) == [(110, 320)]
    assert [list(acked) for acked in rounds] == [[(a, a + 5)] for a in range(320, 360, 5)]


def test_what_is_forgotten_of_unanswered_rounds_is_never_taken_for_the_known_cluster_s() -> None:
    bench = settled()
    for _ in range(20):
        bench.write(2)
        bench.sample += 1
        bench.fold(f.WatchAsked(bench.now_ns, bench.sample))
    slip(bench)
    assert bench.tracker.state.topics[TOPIC].logs[0].known_end == 10


def test_another_incarnation_of_the_topic_knows_nothing_of_the_former_ones_acknowledgements() -> None:
    bench = settled()
    bench.write(2)
    bench.topic_id, bench.log, bench.end = "incarnation-2", {}, 0
    bench.round()
    bench.fold(f.WatchAsked(bench.now_ns, bench.sample + 1))
    slip(bench)
    assert kinds(bench) == ["another-cluster", "topic-recreated"]


def test_what_was_acknowledged_after_the_known_cluster_was_asked_is_unsure_still() -> None:
    bench = settled()
    (stream,) = bench.tracker.state.topics[TOPIC].streams
    bench.write(1)
    bench.fold(f.WatchAsked(bench.now_ns, 100))
    bench.write(2)
    bench.fold(f.WatchAsked(bench.now_ns, 101))
    bench.write(3)
    bench.fold(f.ClusterSeen(bench.now_ns, 100, "cluster", "1,2,3"))
    assert [list(acked) for acked in stream.unsure.values()] == [[(11, 13)], [(13, 16)]]
    bench.fold(f.ClusterSeen(bench.now_ns, 101, "cluster", "1,2,3"))
    assert [list(acked) for acked in stream.unsure.values()] == [[(13, 16)]]


def test_a_snapshot_of_a_former_version_has_unsure_acknowledgements_in_one_list() -> None:
    bench = settled()
    bench.write(3)
    state = bench.tracker.state
    (stream,) = state.topics[TOPIC].streams
    stream.unsure.clear()
    state.unsure = [[state.ordinal, TOPIC, 0, 10, 3, 10]]
    bench.tracker = Tracker.load(bench.tracker.dump())
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    slip(bench)
    assert bench.tracker.state.topics[TOPIC].logs[0].known_end == 10


def read_again(bench: Bench) -> RereadRequest:
    """The leader has changed, so that the log's tail is to be read again."""
    bench.answering, bench.epoch = False, bench.epoch + 1
    bench.round()
    (request,) = bench.requests
    bench.requests.clear()
    bench.answering = True
    return request


def nothing_there(bench: Bench, request: RereadRequest, cluster_id: str | None) -> None:
    """The client of a re-read ends, was given nothing, and was told this id."""
    reach = (request.start, request.end, request.end)
    place = (request.isolation, request.topic, request.partition)
    bench.fold(f.RereadEnded(bench.now_ns, request.request_id, *place, *reach, complete=True, cluster_id=cluster_id))


def test_a_re_read_that_meets_another_cluster_shows_that_and_no_loss() -> None:
    """The watcher stays in the known cluster: topic ids are as ever."""
    bench = settled()
    request = read_again(bench)
    bench.fold(f.ClusterMet(bench.now_ns, f"reread-{request.request_id}", "another"))
    nothing_there(bench, request, "another")
    bench.settle()
    assert kinds(bench) == ["another-cluster"]
    assert bench.said[0].evidence == {"known": "cluster", "found": "another", "client": f"reread-{request.request_id}"}
    back(bench)
    assert kinds(bench) == ["another-cluster"]


def test_a_client_that_is_moved_while_it_reads_is_believed_no_more() -> None:
    bench = settled()
    request = read_again(bench)
    bench.fold(f.ClusterMet(bench.now_ns, f"reread-{request.request_id}", "cluster"))
    nothing_there(bench, request, "another")
    bench.settle()
    assert kinds(bench) == ["another-cluster"]


def test_a_client_that_was_told_no_cluster_has_given_no_answer() -> None:
    bench = settled()
    nothing_there(bench, read_again(bench), "")
    bench.settle()
    assert kinds(bench) == []
    bench.truncate(8)
    bench.settle()
    assert kinds(bench).count("lost-write") == 2, "it is asked again, and the next one is believed"


@pytest.mark.parametrize("told", ["cluster", None], ids=["the known one", "by a former release, which did not note it"])
def test_a_client_of_the_known_cluster_is_believed(told: str | None) -> None:
    bench = settled()
    nothing_there(bench, read_again(bench), told)
    bench.settle()
    assert kinds(bench).count("lost-write") == 10


def test_where_brokers_tell_no_id_a_re_read_is_believed_without_one() -> None:
    bench = settled()
    request = read_again(bench)
    bench.tracker.state.cluster_id = ""
    nothing_there(bench, request, "")
    for _ in range(3):
        bench.sample, bench.now_ns = bench.sample + 1, bench.now_ns + 10**9
        asked = f.WatchAsked(bench.now_ns, bench.sample)
        seen = f.TopicSeen(bench.now_ns, bench.sample, TOPIC, bench.topic_id, 1)
        bench.fold(asked, seen, f.Listed(bench.now_ns, bench.sample, TOPIC, 0, 0, bench.end, bench.end, bench.epoch))
    assert kinds(bench).count("lost-write") == 10


@pytest.mark.parametrize("offset", [10_000, 4], ids=["higher", "taken"])
def test_a_renewed_producer_in_another_cluster_promises_nothing(offset: int) -> None:
    """The watcher goes on in the known cluster, round after round."""
    bench = settled()
    sequences = bench.send(3)
    bench.fold(
        f.ClusterMet(bench.now_ns, "producer-idempotent", "another"),
        *(
            f.Acked(bench.now_ns, TOPIC, 0, PRODUCER, bench.generation, sequence, offset + i, 1)
            for i, sequence in enumerate(sequences)
        ),
    )
    bench.round()
    back(bench)
    assert kinds(bench) == ["another-cluster"]
    assert unseen(bench) == 0
    assert bench.tracker.state.topics[TOPIC].logs[0].known_end == 10


def test_a_consumer_that_goes_on_in_another_cluster_saw_no_cut() -> None:
    bench = settled()
    bench.fold(f.ClusterMet(bench.now_ns, "tail-read_committed", "another"))
    bench.astray(RC)
    bench.put(RC, 3)
    bench.round()
    back(bench)
    assert kinds(bench) == ["another-cluster"]
    assert bench.tracker.state.topics[TOPIC].logs[0].cut is None


def test_the_cluster_that_the_store_knows_is_known_before_the_watcher_asks() -> None:
    bench = Bench(tracker=Tracker())
    bench.tracker = Tracker()
    bench.fold(f.RunnerStarted(bench.now_ns, "r", "1"), f.ClusterMet(bench.now_ns, "admin", "cluster"))
    slip(bench)
    assert kinds(bench) == ["another-cluster"]
    assert bench.tracker.state.cluster_id == "cluster"

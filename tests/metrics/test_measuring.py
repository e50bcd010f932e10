"""What is to be probed has its series from the start, and a partition that takes no writes says for how long."""

from __future__ import annotations

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.online.state import Probed, State
from canary.metrics import measured
from tests.support.bench import PRODUCER, TOPIC, Bench

OUTCOMES = ("sent", "acked", "failed", "indeterminate")


def series(state: State, name: str) -> dict[tuple[str, ...], float]:
    return {m.labels: m.value for m in measured(state).series() if m.name == name}


def test_every_counter_of_what_is_to_be_probed_is_there_at_0_before_the_cluster_answers() -> None:
    state = State(probed={TOPIC: Probed(["idempotent"], [0, 2]), "t-plain": Probed(["plain"], [1])})
    places = {(TOPIC, "0", "idempotent"): 0, (TOPIC, "2", "idempotent"): 0, ("t-plain", "1", "plain"): 0}
    for outcome in OUTCOMES:
        assert series(state, f"canary_probes_{outcome}_total") == places
    assert series(state, "canary_unverified_expired_total") == places
    consumers = ("read_committed", "read_uncommitted")
    seen = {(topic, p, who, mode): 0 for topic, p, mode in places for who in consumers}
    assert series(state, "canary_probes_seen_total") == seen


def test_the_series_are_those_of_the_topic_as_it_is_once_it_is_known() -> None:
    bench = Bench()
    bench.tracker.state.probed = {TOPIC: Probed(["idempotent", "plain"], [0, 1, 2])}
    bench.write(3)
    bench.poll()
    found = series(bench.tracker.state, "canary_probes_acked_total")
    assert found == {(TOPIC, "0", "idempotent"): 3, (TOPIC, "0", "plain"): 0}
    assert series(bench.tracker.state, "canary_probes_seen_total")[TOPIC, "0", "read_committed", "idempotent"] == 3


def test_deliveries_and_their_latencies_have_the_mode_that_writes_to_the_topic() -> None:
    """A topic that is probed no more keeps the mode that wrote there last: its counters go on."""
    bench = Bench()
    bench.write(3)
    bench.poll()
    place = (TOPIC, "0", "read_committed", "idempotent")
    for probed in ({}, {TOPIC: Probed(["idempotent"], [0]), "t-plain": Probed(["plain"], [0])}):
        bench.tracker.state.probed = probed
        assert series(bench.tracker.state, "canary_probes_seen_total")[place] == 3
        assert place in series(bench.tracker.state, "canary_end_to_end_latency_seconds")


def test_of_what_was_not_sent_the_canary_s_own_fault_is_counted_apart() -> None:
    bench = Bench()
    bench.fold(
        f.Skipped(bench.now_ns, TOPIC, 0, "idempotent", 7, 2), f.Skipped(bench.now_ns, TOPIC, 0, "idempotent", 3)
    )
    place = (TOPIC, "0", "idempotent")
    assert series(bench.tracker.state, "canary_probes_skipped_total")[place] == 10
    assert series(bench.tracker.state, "canary_probes_late_total")[place] == 2


def waited(bench: Bench) -> dict[tuple[str, ...], float]:
    return series(bench.tracker.state, "canary_unacknowledged_seconds")


def test_a_partition_is_without_writes_from_the_first_probe_that_it_does_not_acknowledge() -> None:
    bench = Bench()
    bench.write(3)
    assert waited(bench) == {(TOPIC, "0", "1"): 0}
    bench.now_ns += 3600 * 10**9  # nothing was sent
    first, second = bench.send(2)
    bench.now_ns += 20 * 10**9
    bench.fold(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, 1, first, "_MSG_TIMED_OUT"))
    bench.now_ns += 10 * 10**9
    bench.send()
    bench.fold(f.Tick(bench.now_ns))
    assert 30 <= waited(bench)[TOPIC, "0", "1"] < 31
    bench.ack(second, bench.append(second)[0])
    assert waited(bench) == {(TOPIC, "0", "1"): 0}


def test_when_a_partition_last_acknowledged_a_probe_is_known_however_long_nothing_is_sent() -> None:
    bench = Bench()
    name = "canary_last_acknowledged_timestamp_seconds"
    assert series(bench.tracker.state, name) == {(TOPIC, "0"): 0}
    bench.write(3)
    acked_s = (bench.now_ns - 1_000_000) / 1e9
    bench.now_ns += 100 * 10**9
    (lost,) = bench.send()
    bench.fold(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, 1, lost, "_MSG_TIMED_OUT"))
    assert series(bench.tracker.state, name) == {(TOPIC, "0"): acked_s}
    bench.tracker = Tracker.load(bench.tracker.dump())
    assert series(bench.tracker.state, name) == {(TOPIC, "0"): acked_s}


def test_it_counts_from_the_last_acknowledgement_where_later_probes_are_still_under_way() -> None:
    """A writer whose probes get no answer sends no more: it waits for those that it has sent."""
    bench = Bench()
    first, second, third = bench.send(3)
    bench.now_ns += 5 * 10**9
    bench.ack(first, *bench.append(first))
    bench.now_ns += 70 * 10**9
    bench.fold(f.Tick(bench.now_ns))
    assert 70 <= waited(bench)[TOPIC, "0", "1"] < 71
    for one in (second, third):
        bench.ack(one, *bench.append(one))
    bench.now_ns += 70 * 10**9
    bench.fold(f.Tick(bench.now_ns))
    assert waited(bench)[TOPIC, "0", "1"] == 0


def test_it_does_not_count_while_nothing_is_asked_of_the_partition() -> None:
    """A transaction that is aborted gives its writes up, and the next one in that partition may be minutes away."""
    bench = Bench()
    (first,) = bench.send()
    bench.now_ns += 9 * 10**9
    bench.fold(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, 1, first, "_PURGE_INFLIGHT"))
    bench.now_ns += 200 * 10**9
    bench.fold(f.Tick(bench.now_ns))
    assert 9 <= waited(bench)[TOPIC, "0", "1"] < 10
    bench.send()
    bench.now_ns += 20 * 10**9
    bench.fold(f.Tick(bench.now_ns))
    assert waited(bench)[TOPIC, "0", "1"] >= 229


def test_a_partition_without_a_leader_waits_on_under_the_next_process_unless_that_does_not_probe_it() -> None:
    bench = Bench()
    bench.send()
    bench.now_ns += 30 * 10**9
    bench.fold(f.PartitionSeen(bench.now_ns, 1, TOPIC, 0, -1, "1,2,3", ""))
    ((labels, seconds),) = waited(bench).items()
    assert labels == (TOPIC, "0", "none")
    assert seconds >= 30
    stopped_ns, bench.now_ns = bench.now_ns, bench.now_ns + 3600 * 10**9
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test", remembered_ns=stopped_ns))
    bench.now_ns += 3600 * 10**9
    bench.fold(f.Tick(bench.now_ns))
    assert waited(bench) == {labels: pytest.approx(seconds, abs=0.1)}, "nothing was sent meanwhile"
    bench.sequence, bench.generation = 0, 2
    bench.send()
    bench.now_ns += 20 * 10**9
    bench.fold(f.Tick(bench.now_ns))
    assert waited(bench)[labels] > seconds + 3600 + 19
    bench.tracker.state.probed[TOPIC].share = [1, 2]
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    assert waited(bench) == {labels: 0}


def test_a_zombie_that_is_not_acknowledged_is_as_it_should_be() -> None:
    bench = Bench(mode="fencing")
    bench.send()
    bench.now_ns += 600 * 10**9
    bench.fold(f.Tick(bench.now_ns))
    assert set(waited(bench).values()) == {0}


def test_what_generations_wrote_and_a_consumer_was_not_given_is_one_number_of_the_oldest_age() -> None:
    bench = Bench()
    bench.write(2)
    bench.now_ns += 5 * 10**9
    bench.restart()
    bench.write(3)
    place = (TOPIC, "0", "read_committed")
    assert series(bench.tracker.state, "canary_unseen_probes")[place] == 5
    assert 5 <= series(bench.tracker.state, "canary_unseen_oldest_seconds")[place] < 7

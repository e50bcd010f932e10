"""What is measured of leaders: of each broker alone, not of a change of leaders, and not of one that left for good."""

from __future__ import annotations

from canary import facts as f
from canary.anomalies.online import codec
from canary.anomalies.online.state import State
from canary.anomalies.online.topology.state import BROKER_KEPT_NS
from canary.metrics import Measurement, measured
from tests.support.bench import PRODUCER, RC, TOPIC, Bench

PRODUCE, DELIVERY = "canary_leader_produce_latency_seconds", "canary_leader_end_to_end_latency_seconds"
FAILURES = "canary_leader_failures_total"


def by_broker(state: State, name: str) -> dict[str, Measurement]:
    return {one.labels[0]: one for one in measured(state).series() if one.name == name}


def observed(state: State, name: str) -> dict[str, int]:
    return {broker: n for broker, one in by_broker(state, name).items() if (n := sum(one.counts))}


def live(bench: Bench, *brokers: int) -> None:
    text = ",".join(map(str, brokers))
    bench.sample += 1
    bench.fold(f.ClusterSeen(bench.now_ns, bench.sample, "cluster", text))


def lead(bench: Bench, broker: int) -> None:
    bench.fold(f.PartitionSeen(bench.now_ns, bench.sample, TOPIC, 0, broker, "1,2,3", "1,2,3"))


def test_writes_count_for_the_broker_that_led_while_they_were_under_way() -> None:
    bench = Bench()
    bench.write(3)
    lead(bench, 2)
    bench.now_ns += 10**9
    bench.write(2)
    state = bench.tracker.state
    assert observed(state, PRODUCE) == {"1": 3, "2": 2}
    assert by_broker(state, PRODUCE)["1"].value == 0.006


def test_a_write_that_waited_for_an_election_is_of_no_leader() -> None:
    """It would make the healthy successor look slow after each restart of a broker."""
    bench = Bench()
    (sequence,) = bench.send()
    bench.now_ns += 9 * 10**9
    lead(bench, 2)
    bench.fold(f.Acked(bench.now_ns, TOPIC, 0, PRODUCER, 1, sequence, bench.append(sequence)[0], 9 * 10**9))
    assert observed(bench.tracker.state, PRODUCE) == {}
    place = [one for one in measured(bench.tracker.state).series() if one.name == "canary_produce_latency_seconds"]
    assert [sum(one.counts) for one in place] == [1]


def test_reads_count_once_whatever_consumers_there_are() -> None:
    bench = Bench()
    bench.write(4)
    bench.poll(RC)
    assert observed(bench.tracker.state, DELIVERY) == {}
    bench.poll()
    assert observed(bench.tracker.state, DELIVERY) == {"1": 4}


def test_what_was_not_written_or_is_unknown_is_the_leader_s_failure() -> None:
    bench = Bench()
    first, second, third = bench.send(3)
    bench.fold(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, 1, first, "_MSG_TIMED_OUT"))
    bench.fold(f.Failed(bench.now_ns, TOPIC, 0, PRODUCER, 1, second, "_QUEUE_FULL"))
    lead(bench, -1)
    bench.fold(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, 1, third, "_MSG_TIMED_OUT"))
    assert {broker: one.value for broker, one in by_broker(bench.tracker.state, FAILURES).items()} == {
        "1": 2,
        "2": 0,
        "3": 0,
    }


def test_a_broker_that_left_goes_after_an_hour_with_all_that_was_measured_of_it() -> None:
    bench = Bench()
    bench.fold(f.BrokerSeen(bench.now_ns, bench.sample, 1, "one:9092", "a"), f.BrokerSeen(0, 0, 2, "two:9092"))
    bench.write(2)
    info = [one.labels for one in measured(bench.tracker.state).series() if one.name == "canary_broker_info"]
    assert info == [("1", "a", "one:9092"), ("2", "", "two:9092")]
    lead(bench, 2)
    live(bench, 2)
    bench.now_ns += BROKER_KEPT_NS // 2
    live(bench, 2)
    assert observed(bench.tracker.state, PRODUCE) == {"1": 2}
    bench.now_ns += BROKER_KEPT_NS
    live(bench, 2)
    for name in (PRODUCE, DELIVERY, FAILURES, "canary_broker_info"):
        assert by_broker(bench.tracker.state, name).keys() == {"2"}
    assert bench.tracker.state.leaders.keys() <= {2}


def test_it_is_in_the_snapshot() -> None:
    bench = Bench()
    bench.write(2)
    again = codec.loads(State, codec.dumps(bench.tracker.state))
    assert again.leaders == bench.tracker.state.leaders
    assert observed(again, PRODUCE) == {"1": 2}
    assert again.topics[TOPIC].logs[0].led_ns == bench.tracker.state.topics[TOPIC].logs[0].led_ns > 0

"""What the settings no longer want probed waits for nothing: it is counted as unverified, and nothing ages there."""

from __future__ import annotations

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.online.gauges import suspects
from canary.anomalies.online.state import Probed
from canary.metrics import measured
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench


def start(bench: Bench, **probed: Probed) -> None:
    """The canary was killed with kill -9, and starts with other settings three days later."""
    bench.tracker = Tracker.load(bench.tracker.dump())
    bench.tracker.state.probed = {name.replace("_", "-"): one for name, one in probed.items()}
    bench.requests.clear()
    bench.now_ns += 3 * 86_400 * 10**9
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.fold(f.WatchAsked(bench.now_ns, bench.sample + 1))


def waiting(bench: Bench) -> dict[str, int]:
    """Return how many probes wait for each consumer; none of those that wait for nothing."""
    (partition,) = measured(bench.tracker.state).partitions
    return {name: one.unseen for name, one in partition.consumers.items() if one.unseen}


def unverified(bench: Bench) -> dict[str, int]:
    return bench.tracker.state.meters[TOPIC, 0].unverified


@pytest.mark.parametrize(
    "probed",
    [
        {"other_probes": Probed(["idempotent"], [0])},
        {},
        {TOPIC: Probed(["idempotent"], [1], share=[1, 2])},
    ],
    ids=["the topic is renamed", "the mode is switched off", "another runner has the partition"],
)
def test_unread_probes_of_what_is_no_longer_probed_are_unverified_and_age_no_more(probed: dict[str, Probed]) -> None:
    bench = Bench()
    bench.write(5)
    bench.settle()
    bench.write(2)
    bench.poll(RC)
    bench.write(3)
    (unplaced,) = bench.send()
    bench.ack(unplaced, None)
    assert waiting(bench) == {RC: 4, RU: 6}
    start(bench, **probed)
    assert waiting(bench) == {}
    assert unverified(bench) == {"idempotent": 4}
    assert {one.consumers[RC].oldest_unseen_s for one in measured(bench.tracker.state).partitions} == {0.0}
    start(bench, **probed)
    assert unverified(bench) == {"idempotent": 4}, "counted once"
    assert bench.said == []


def test_what_is_probed_still_waits_as_before() -> None:
    bench = Bench()
    bench.write(3)
    start(bench, **{TOPIC: Probed(["idempotent"], [0])})
    assert waiting(bench)[RC] == 3
    assert unverified(bench) == {}


def test_suspicions_where_nothing_is_asked_any_more_are_closed() -> None:
    """Two probes were skipped, one is a copy, and the scrub is four days old when the topic is renamed."""
    bench = Bench()
    bench.answering = False
    bench.hidden.update({3, 4})
    bench.write(8)
    bench.append(7)
    bench.poll()
    bench.round()
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 100))
    assert suspects(bench.tracker.state)["lost-write"] == 2
    assert suspects(bench.tracker.state)["duplicate"] == 1
    start(bench, other=Probed(["idempotent"], [0]))
    assert suspects(bench.tracker.state) == {"lost-write": 0}
    assert unverified(bench) == {"idempotent": 2}
    ages = [one.value for one in measured(bench.tracker.state).series() if one.name == "canary_scrub_age_seconds"]
    assert ages == []


def test_a_topic_that_is_probed_again_has_its_promises_still() -> None:
    bench = Bench()
    bench.write(5)
    start(bench, other=Probed(["idempotent"], [0]))
    bench.truncate(2)
    start(bench, **{TOPIC: Probed(["idempotent"], [0])})
    bench.generation, bench.sequence = 2, 0
    bench.begin()
    bench.settle()
    assert [offset for _, offset, _ in bench.found("lost-write")] == [2, 3, 4]
    assert unverified(bench) == {"idempotent": 5}


def test_what_a_mode_left_without_an_offset_is_looked_for_though_another_mode_has_its_topic_now() -> None:
    """No generation of the mode follows that would have it looked for."""
    bench = Bench()
    bench.write(3)
    (unplaced,) = bench.send()
    bench.append(unplaced)
    bench.ack(unplaced, None)
    bench.answering = False
    start(bench, **{TOPIC: Probed(["plain"], [0])})
    bench.mode, bench.generation, bench.sequence = "plain", 2, 0
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, "plain", PRODUCER + 1, 1, bench.marked_id))
    bench.round()
    bench.round()
    assert any(one.start <= 3 < one.end for one in bench.requests)

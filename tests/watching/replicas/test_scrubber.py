"""How far a scrub is, what it shows of that, and how it stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from canary.metrics.published import Published, dumps, loads
from canary.metrics.watched.replicas import ReplicasSeen, TopicCompared
from canary.threads.ports import SteadyClock
from canary.watching.replicas.outcomes import Outcome
from canary.watching.replicas.progress import Progress
from canary.watching.replicas.scrubber import ReplicaScrubber
from canary.wire.errors import WireError
from tests.anomalies.replicas.model import batch, record
from tests.support.heard import Heard
from tests.support.waiting import in_time, until
from tests.watching.replicas.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from canary.anomalies.violation import Violation

S = 10**9
ROWS = [batch(record(2 * i), record(2 * i + 1)) for i in range(10)]
PLACES = [("orders", 0), ("orders", 1), ("payments", 0)]


def outcome(topic: str, partition: int, **more: Any) -> Outcome:
    return Outcome(topic, partition, compared_to=20, **more)


def shown(progress: Progress) -> dict[str, TopicCompared]:
    return {one.topic: one for one in progress.topics()}


def test_a_pass_comes_to_each_partition_once_and_is_whole_by_topic() -> None:
    progress = Progress()
    progress.begin(PLACES, 1 * S)
    order = []
    while (place := progress.next()) is not None:
        order.append(place)
        progress.read(outcome(*place), 20, 100)
        progress.done(outcome(*place), (2 + len(order)) * S)
    assert order == PLACES
    found = shown(progress)
    assert (found["orders"].whole_ns, found["orders"].bytes, found["orders"].compared_to) == (
        4 * S,
        200,
        ((0, 20), (1, 20)),
    )
    progress.begin(PLACES[:2], 9 * S)
    assert progress.next() == ("orders", 0)
    assert set(shown(progress)) == {"orders"}, "a topic that is gone has no series"
    assert shown(progress)["orders"].whole_ns == 4 * S, "until the next pass is over"


def test_what_may_be_over_is_tried_once_more_at_the_end_of_the_pass() -> None:
    progress = Progress()
    progress.begin(PLACES, S)
    ill = outcome("orders", 0, unknown={("not-in-sync", 2): "broker 2 is not in the ISR"})
    progress.done(ill, 2 * S)
    progress.done(outcome("orders", 1), 3 * S)
    assert shown(progress)["orders"].whole_ns == 0
    progress.done(outcome("payments", 0, unknown={("refused", None): "TOPIC_AUTHORIZATION_FAILED"}), 4 * S)
    assert progress.next() == ("orders", 0)
    progress.done(ill, 5 * S)
    assert progress.next() is None
    found = shown(progress)
    assert (found["orders"].whole_ns, found["orders"].unknown) == (5 * S, {"not-in-sync": 1})
    assert found["orders"].words == {"not-in-sync": "broker 2 is not in the ISR"}
    assert progress.refused == "watch.replicas: TOPIC_AUTHORIZATION_FAILED (docs/acl.md)"


def test_a_pass_that_was_interrupted_goes_on_where_it_was() -> None:
    progress = Progress()
    progress.begin(PLACES[:2], S)
    half = outcome("orders", 0)
    progress.read(half, 17, 100)
    progress.begin(PLACES[:2], 2 * S)
    assert progress.next() == ("orders", 0)
    assert (progress.interrupted_at("orders", 0), progress.interrupted_at("orders", 1)) == ((17, half), (0, None))
    progress.interrupted("orders", 0)
    assert progress.next() == ("orders", 1), "one that does not answer does not hold up the others"
    progress.done(outcome("orders", 0), 3 * S)
    assert progress.interrupted_at("orders", 0) == (0, None)


def test_series_say_age_place_and_what_is_unknown_and_survive_the_store() -> None:
    topics = (
        TopicCompared("orders", 500, 10 * S, 0, ((0, 20), (1, 30)), 2, {"tiered": 1}),
        TopicCompared("payments", 100, 10 * S, 40 * S),
    )
    seen = ReplicasSeen(100 * S, topics)
    series = {(one.name, one.labels): one.value for one in seen.measurements()}
    assert series == {
        ("canary_replicas_unknown", ()): 0,
        ("canary_replicas_compared_bytes_total", ("orders",)): 500,
        ("canary_replicas_compared_age_seconds", ("orders",)): 90.0,
        ("canary_replicas_divergent_ranges", ("orders",)): 2,
        ("canary_replicas_unknown_partitions", ("orders", "tiered")): 1,
        ("canary_replicas_compared_to_offset", ("orders", "0")): 20,
        ("canary_replicas_compared_to_offset", ("orders", "1")): 30,
        ("canary_replicas_compared_bytes_total", ("payments",)): 100,
        ("canary_replicas_compared_age_seconds", ("payments",)): 60.0,
        ("canary_replicas_divergent_ranges", ("payments",)): 0,
    }
    assert seen.aged(150 * S, 60.0) == seen
    old = seen.aged(200 * S, 60.0)
    assert old.unknown == "nothing was compared for 100 s"
    assert next(old.measurements()).value == 1
    assert loads(dumps(Published(replicas=seen)), 0).replicas == seen


class Scrubbed:
    """A scrubber of a world, whose client is opened in vain as long as ``refusing`` says why."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heard = Heard()
        self.refusing: WireError | None = None
        monkeypatch.setattr("canary.watching.replicas.source.Source", lambda _admin: world)
        monkeypatch.setattr("canary.wire.client.opened", self._opened)
        monkeypatch.setattr("canary.watching.replicas.scrubber._RETRY_S", 0.05)
        monkeypatch.setattr("canary.watching.replicas.comparing.PAUSE_S", 0.0)
        self.worker = ReplicaScrubber(
            {}, ["ord*"], Progress(), self.heard, SteadyClock(), bytes_per_second=10**9, rest_s=0.05
        )

    def _opened(self, _config: Mapping[str, object], _timeout_s: float) -> Any:
        from contextlib import nullcontext  # noqa: PLC0415  # only here

        if self.refusing is not None:
            raise self.refusing
        return nullcontext()

    @property
    def said(self) -> list[Violation]:
        assert not self.heard.over
        return self.heard.said

    @property
    def seen(self) -> ReplicasSeen:
        assert self.worker.latest is not None
        return self.worker.latest


@pytest.fixture(name="scrubbed")
def _scrubbed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scrubbed]:
    world = World({1: list(ROWS), 2: [*ROWS[:3], *ROWS[4:]], 3: list(ROWS)})
    found = Scrubbed(world, monkeypatch)
    yield found
    in_time(found.worker.stop(20))


def test_it_says_where_replicas_differ_with_the_command_that_shows_it(scrubbed: Scrubbed) -> None:
    scrubbed.worker.start()
    until(lambda: len(scrubbed.said) > 1, 20, "two passes")
    first, again = scrubbed.said[:2]
    assert first.key("c") == again.key("c"), "found again, it is the same violation"
    assert (first.kind, first.topic, first.partition, first.offset, first.last_offset) == (
        "replica-divergence",
        "orders",
        0,
        6,
        7,
    )
    assert first.evidence["command"] == "canary replicas compare orders --partition 0"
    until(lambda: scrubbed.seen.topics and scrubbed.seen.topics[0].divergent == 1, 20, "it is shown")
    assert (scrubbed.seen.unknown, scrubbed.worker.failing) == (None, None)


def test_without_an_answer_it_is_unknown_and_a_refusal_is_a_trouble(scrubbed: Scrubbed) -> None:
    scrubbed.refusing = WireError("SASL_AUTHENTICATION_FAILED", refused=True)
    scrubbed.worker.start()
    until(lambda: scrubbed.worker.failing, 20, "it fails")
    assert scrubbed.worker.failing == "watch.replicas: SASL_AUTHENTICATION_FAILED (docs/acl.md)"
    assert scrubbed.seen.unknown == "SASL_AUTHENTICATION_FAILED"
    scrubbed.refusing = None
    until(lambda: scrubbed.said and scrubbed.worker.failing is None, 20, "it goes on")
    assert scrubbed.seen.unknown is None


def test_without_a_topic_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World({1: list(ROWS)})
    world.change(topic="else")
    scrubbed = Scrubbed(world, monkeypatch)
    scrubbed.worker.start()
    until(lambda: scrubbed.worker.latest and scrubbed.seen.unknown, 20, "nothing to compare")
    assert "no topic is matched" in (scrubbed.seen.unknown or "")
    in_time(scrubbed.worker.stop(20))


def test_a_broker_of_another_cluster_shows_where_a_new_connection_leads_and_no_divergence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What answers as broker 2 is elsewhere: there is a topic of that name with other records."""
    world = World({1: list(ROWS), 2: [*ROWS[:3], *ROWS[4:]], 3: list(ROWS)}, clusters={2: "there"})
    scrubbed = Scrubbed(world, monkeypatch)
    scrubbed.worker.start()
    until(lambda: "there" in scrubbed.heard.met, 20, "it is said where")
    until(lambda: scrubbed.worker.latest and scrubbed.seen.unknown, 20, "it is unknown")
    in_time(scrubbed.worker.stop(20))
    assert scrubbed.said == []


def test_what_is_said_of_replicas_says_in_which_cluster_it_was_found(scrubbed: Scrubbed) -> None:
    scrubbed.worker.start()
    until(lambda: scrubbed.said, 20, "it is said")
    assert scrubbed.heard.met[:1] == scrubbed.heard.found_in[:1] == ["here"]

"""A topic is made again: what everybody goes on under, and what a client that is made anew in between writes under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from canary.facts import GenerationBegan, Skipped
from canary.metrics.published import ConsumerView, PartitionView, Published, TopicView
from canary.runner.cluster.identities import Identities
from canary.runner.cluster.readers import Reading
from canary.runner.cluster.workloads import TopicProbes, start_positions
from canary.threads import system
from storage.store import Store, StoreError
from tests.support import stores
from tests.support.contexts import context
from tests.support.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TOPIC = "probes"
BOTH = tuple(Reading(isolation, isolation) for isolation in ("read_committed", "read_uncommitted"))


class Everybody:
    """Stands for a reader and a writer: remembers where it was told to go on."""

    alive = True
    name = "everybody"
    failure = None

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.hangs = False

    def start(self) -> None:
        self.alive = True

    def ask_stop(self) -> None:
        self.alive = self.hangs

    def stop(self, _: float) -> bool:
        return not self.alive

    def retarget(self, *told: Any) -> None:
        self.told.append(told)


def view(topic_id: str, partitions: int, *, answered: int = 0, read: int = 0) -> Published:
    """The first ``answered`` partitions have told their end, and in the first ``read`` of those readers stand."""
    readers = {"read_committed": ConsumerView("read_committed", position=7)}
    listed = tuple(
        PartitionView(TOPIC, number, end=9, fresh=number < answered, consumers=readers if number < read else {})
        for number in range(partitions)
    )
    topic = TopicView(TOPIC, topic_id, partitions=partitions, known=True, fresh=True)
    return Published(topics=(topic,), partitions=listed)


@dataclass
class Bench:
    """The probes of one topic, whose incarnation is "first"."""

    probes: TopicProbes
    identities: Identities
    store: Store
    inbox: Recording
    writer: Everybody
    tail: Everybody


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    inbox, writer, tail = Recording(), Everybody(), Everybody()
    make: Any = lambda *_: writer  # noqa: E731
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        stores.upgrade(store)
        shared = context(store, inbox=inbox, topic={"name": TOPIC})
        identities = Identities(shared, ("a" * 32, "id"), TOPIC, "idempotent", None)
        probes = TopicProbes(shared, TOPIC, make=make, readings=BOTH, sending=True, may_start=lambda *_: True)
        probes.identities["idempotent"] = identities
        probes.writers["idempotent"], probes.tails["read_committed"] = writer, tail  # type: ignore[assignment]
        identities.aim("first", (0, 1))
        probes._placed = {0, 1}
        identities.begin()
        yield Bench(probes, identities, store, inbox, writer, tail)


def test_who_is_made_anew_before_everybody_is_told_of_a_new_incarnation_says_for_which_one_it_writes(
    bench: Bench,
) -> None:
    # the topic is made again, which is known already, and the writer has to take another client
    under = bench.identities.renew("its client was closed")
    assert under.tag == bench.identities.tag("first")
    bench.probes.renew(view("second", 3))
    assert told(bench.inbox) == [(1, "first"), (2, "first"), (3, "second")]
    tag = bench.identities.tag("second")
    assert bench.writer.told == [(3, tag, (0, 1, 2))]
    assert bench.tail.told == [({0: 0, 1: 0, 2: 0}, tag, "second")]
    assert len(told(bench.inbox)) == 3


def test_a_partition_is_read_once_it_has_answered_and_written_once_every_reader_stands_there(bench: Bench) -> None:
    """It is new, say, or had no leader at the start; the client of a generation stays, and its numbers go on."""
    tag = bench.identities.tag("first")
    for shown in (view("first", 4, answered=2, read=2), view("first", 4, answered=3, read=2)):
        bench.probes.look_after(shown)
    assert bench.tail.told == [({2: 9}, tag, "first")]
    assert bench.writer.told == []
    bench.probes.look_after(view("first", 4, answered=3, read=3))
    bench.probes.renew(view("first", 4, answered=3, read=3))
    assert bench.tail.told == [({2: 9}, tag, "first")]
    assert bench.writer.told == [(1, tag, (0, 1, 2))]
    assert bench.identities.target.partitions == (0, 1, 2)


def test_what_is_due_where_nothing_has_answered_yet_is_counted_as_skipped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((100.0, 102.5))
    monkeypatch.setattr(system, "monotonic", lambda: next(times))
    for _ in range(2):
        bench.probes.count_skipped(view("first", 3, answered=2, read=2))
    (skipped,) = bench.inbox.of(Skipped)
    assert (skipped.partition, skipped.mode, skipped.count, skipped.late) == (2, "idempotent", 25, 0)


def test_who_has_no_generation_for_a_new_incarnation_while_the_store_is_away_goes_on_there_when_it_is_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> int:
        raise StoreError("away")

    with monkeypatch.context() as outage:
        outage.setattr(bench.store.identities, "next_generation", away)
        bench.probes.renew(view("second", 3))
        bench.probes.renew(view("second", 4, answered=4, read=4))
        bench.identities.stock()
        bench.probes.look_after(view("second", 4))
    tag = bench.identities.tag("second")
    assert [told[1:] for told in bench.tail.told] == [(tag, "second")] * 2
    assert bench.writer.told == []
    bench.identities.stock()
    for _ in range(2):
        bench.probes.look_after(view("second", 4))
    assert bench.writer.told == [(2, tag, (0, 1, 2, 3))]
    assert told(bench.inbox) == [(1, "first"), (2, "second")]


def told(inbox: Recording) -> Sequence[tuple[int, str | None]]:
    return [(fact.generation, fact.topic_id) for fact in inbox.of(GenerationBegan)]


def test_who_has_not_ended_when_clients_are_made_anew_is_followed_when_it_has(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers at once, of two generations, look as if the former one wrote though it was fenced."""
    read: list[str] = []
    monkeypatch.setattr(bench.probes, "_read", lambda reading, _: read.append(reading.name))
    bench.probes.tails["read_uncommitted"] = bench.probes.tails["read_committed"]
    for hangs, generations in ((True, {1}), (False, {1, 2})):
        bench.writer.hangs = bench.tail.hangs = hangs
        bench.probes.start_anew(view("first", 2))
        assert {generation for generation, _ in told(bench.inbox)} == generations
        assert len(read) == (0 if hangs else 2)
    bench.tail.alive = bench.writer.hangs = True
    bench.probes.start_anew(view("first", 2))
    bench.probes.look_after(view("first", 2))
    assert {generation for generation, _ in told(bench.inbox)} == {1, 2}
    bench.writer.alive = False
    bench.probes.look_after(view("first", 2))
    assert told(bench.inbox)[-1] == (3, "first")


@pytest.mark.parametrize(("incarnations", "fresh"), [(1, 90), (2, 5)])
def test_a_reader_that_is_started_again_leaves_out_no_partition(incarnations: int, fresh: int) -> None:
    partitions = (
        PartitionView(TOPIC, 0, start=5, end=90, consumers={"rc": ConsumerView("read_committed", position=40)}),
        PartitionView(TOPIC, 1, start=5, end=90),
        PartitionView(TOPIC, 2),  # of a topic that has just grown: its end is not known yet
        PartitionView(TOPIC, 3, end=1),  # of an incarnation that had more
    )
    shown = Published(topics=(TopicView(TOPIC, partitions=3, incarnations=incarnations),), partitions=partitions)
    assert start_positions(shown, TOPIC, "rc") == {0: 40, 1: fresh, 2: 0}

"""A topic is made again: what everybody goes on under, and what a client that is made anew in between writes under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from canary.client.ports import SteadyClock
from canary.client.recording import Recording
from canary.facts import GenerationBegan
from canary.runner.probes import TopicProbes
from canary.runner.topics import Identities
from canary.settings import Settings
from storage.store import Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TOPIC = "probes"


class Everybody:
    """Stands for a reader and a writer: remembers where it was told to go on."""

    alive = True

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def retarget(self, *told: Any) -> None:
        self.told.append(told)


def view(topic_id: str, partitions: int) -> dict[str, Any]:
    return {"topics": [{"topic": TOPIC, "topic_id": topic_id, "partitions": partitions}], "partitions": []}


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
    inbox, clock, writer, tail = Recording(), SteadyClock(), Everybody(), Everybody()
    settings = {"name": "c", "kafka": {"bootstrap.servers": "127.0.0.1:1"}, "topic": {"name": TOPIC}}
    (cluster,) = Settings.model_validate({"clusters": [settings]}).clusters
    make: Any = lambda *_: writer  # noqa: E731
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        store.upgrade()
        identities = Identities(
            store,
            inbox,
            clock,
            cluster="c",
            cluster_id="id",
            runner="r",
            topic=TOPIC,
            mode="idempotent",
            installation="a" * 32,
            known=None,
        )
        probes = TopicProbes(
            cluster,
            TOPIC,
            {"idempotent": identities},
            make=make,
            inbox=inbox,
            clock=clock,
            sending=True,
            may_start=lambda *_: True,
        )
        probes.writers["idempotent"], probes.tails["read_committed"] = writer, tail  # type: ignore[assignment]
        identities.aim("first", (0, 1))
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
    bench.probes.renew(view("second", 4))  # only more partitions: nobody begins anew
    assert bench.writer.told[1:] == [(3, tag, (0, 1, 2, 3))]
    assert bench.tail.told[1:] == [({3: 0}, tag, "second")]
    assert len(told(bench.inbox)) == 3


def test_who_has_no_generation_for_a_new_incarnation_while_the_store_is_away_goes_on_there_when_it_is_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> int:
        raise StoreError("away")

    with monkeypatch.context() as outage:
        outage.setattr(bench.store, "next_generation", away)
        bench.probes.renew(view("second", 3))
        bench.probes.renew(view("second", 4))
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

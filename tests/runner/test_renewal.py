"""A topic is made again: what everybody goes on under, and what a client that is made anew in between writes under."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary.client.ports import SteadyClock
from canary.client.recording import Recording
from canary.facts import GenerationBegan
from canary.runner.probes import TopicProbes
from canary.runner.topics import Identities
from canary.settings import Settings
from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TOPIC = "probes"


class Everybody:
    """Stands for a reader and a writer: remembers where it was told to go on."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def retarget(self, *told: Any) -> None:
        self.told.append(told)


def view(topic_id: str, partitions: int) -> dict[str, Any]:
    return {"topics": [{"topic": TOPIC, "topic_id": topic_id, "partitions": partitions}], "partitions": []}


def test_who_is_made_anew_before_everybody_is_told_of_a_new_incarnation_says_for_which_one_it_writes(
    tmp_path: Path,
) -> None:
    inbox, clock = Recording(), SteadyClock()
    settings = {"name": "c", "kafka": {"bootstrap.servers": "127.0.0.1:1"}, "topic": {"name": TOPIC}}
    (cluster,) = Settings.model_validate({"clusters": [settings]}).clusters
    who = {"cluster": "c", "cluster_id": "id", "runner": "r", "topic": TOPIC, "mode": "idempotent"}
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        store.upgrade()
        identities = Identities(store, inbox, clock, **who, known=None)
        writer, tail = Everybody(), Everybody()
        make: Any = lambda *_: writer  # noqa: E731
        probes = TopicProbes(
            cluster, TOPIC, {"idempotent": identities}, make=make, inbox=inbox, clock=clock, sending=True
        )
        probes.writers["idempotent"], probes.tails["read_committed"] = writer, tail  # type: ignore[assignment]
        identities.aim("first", (0, 1))
        identities.begin()
        # the topic is made again, which is known already, and the writer has to take another client
        under = identities.renew("its client was closed")
        assert under.tag == identities.tag("first")
        probes.renew(view("second", 3))
        assert told(inbox) == [(1, "first"), (2, "first"), (3, "second")]
        tag = identities.tag("second")
        assert writer.told == [(3, tag, (0, 1, 2))]
        assert tail.told == [({0: 0, 1: 0, 2: 0}, tag, "second")]
        probes.renew(view("second", 4))  # only more partitions: nobody begins anew
        assert writer.told[1:] == [(3, tag, (0, 1, 2, 3))]
        assert tail.told[1:] == [({3: 0}, tag, "second")]
        assert len(told(inbox)) == 3


def told(inbox: Recording) -> Sequence[tuple[int, str | None]]:
    return [(fact.generation, fact.topic_id) for fact in inbox.of(GenerationBegan)]

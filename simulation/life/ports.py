"""The product's ports, in which a world takes the place of the operating system and of Kafka."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

import fsspec
import structlog

from canary.facts import each
from canary.kafka import opening
from canary.threads import system
from canary.watching import topic_ids
from canary.wire.errors import WireError
from simulation.clients import SimulatedKafka
from simulation.machine.schedule import Process
from simulation.world.world import World
from storage.ledger import Ledger
from storage.probe_log import shipping
from storage.probe_log.converting import Converted
from storage.store.repositories.violations import Violations


class Clients(opening.Clients):
    """Each process has its own."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: dict[Process, SimulatedKafka] = {}

    def _of(self) -> SimulatedKafka:
        process = self._world.schedule.running().process
        if process not in self._made:
            self._made[process] = SimulatedKafka(self._world.schedule, self._world.cluster, process)
        return self._made[process]

    def producer(self, config: dict[str, Any], logger: logging.Logger) -> Any:
        """Return a producer of the process that asks."""
        return self._of().producer(config, logger)

    def consumer(self, config: dict[str, Any], logger: logging.Logger) -> Any:
        """Return a consumer of the process that asks."""
        return self._of().consumer(config, logger)

    def admin(self, config: dict[str, Any], logger: logging.Logger) -> Any:
        """Return an admin client of the process that asks."""
        return self._of().admin(config, logger)


def _ids_told(world: World, _: object, topics: Collection[str]) -> topic_ids.Answers:
    """Return which id each broker that answers gives of topics; those that lie about ids answer librdkafka alone."""
    cluster = world.cluster
    told = {one: cluster.metadata(one) for one in cluster.brokers() if cluster.reaches("canary", one)}
    if not told or cluster.other_id is not None or cluster.another is not None:
        raise WireError("no broker answers")
    found = {
        broker: {name: (one.topic_id, len(one.partitions)) for name, one in known.topics.items() if name in topics}
        for broker, known in told.items()
    }
    first = next(iter(told.values()))
    unknown: dict[str, tuple[str | None, int]] = dict.fromkeys(topics, (None, 0))
    members = [number for number, _ in first.brokers]
    return topic_ids.Answers(members, first.controller, {broker: unknown | ids for broker, ids in found.items()})


@contextlib.contextmanager
def installed(world: World) -> Iterator[None]:
    """Put a world in the place of the operating system and of Kafka, and listen to the ledger and the store."""
    truth = world.truth
    append, record, ship = Ledger.append, Violations.record, shipping.ship

    def listening(ledger: Ledger, facts: Sequence[Any]) -> None:
        append(ledger, facts)
        known = list(each(facts))
        truth.durable(known)
        world.facts += known

    def telling(repository: Violations, cluster: str, found: Sequence[Any]) -> int:
        done = record(repository, cluster, found)
        truth.told(found)
        return done

    def sending(converted: Converted, *, url: str, name: str) -> None:
        ship(converted, url=url, name=name)
        truth.was_shipped(converted.tables["probes"].to_pylist())

    ask = topic_ids.answers
    topic_ids.answers = partial(_ids_told, world)
    fsspec.filesystem("memory").store.clear()
    before_system, before_clients = system.use(world.system), opening.use(Clients(world))  # type: ignore[arg-type]
    Ledger.append, Violations.record = listening, telling  # type: ignore[method-assign,assignment]
    shipping.ship = sending
    configured = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(world.log_level))
    try:
        yield
    finally:
        Ledger.append, Violations.record = append, record  # type: ignore[method-assign]
        shipping.ship = ship
        topic_ids.answers = ask
        system.use(before_system)
        opening.use(before_clients)
        structlog.configure(**configured)
        world.store.close()

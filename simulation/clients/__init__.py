"""Clients of a simulated cluster, in the place of confluent-kafka's (canary.kafka.opening.Clients)."""

import logging
from collections.abc import Callable
from typing import Any

from simulation.clients.admin import Admin
from simulation.clients.consumer import Consumer
from simulation.clients.link import Link
from simulation.clients.producer.core import ProducerCore
from simulation.clients.producer.producer import Producer
from simulation.clients.producer.transactions import Transactions
from simulation.kafka.contract import ClusterApi
from simulation.machine.futures import SimulatedFuture, wait_futures
from simulation.machine.schedule import Process, Schedule

__all__ = ["SimulatedFuture", "SimulatedKafka", "wait_futures"]


class SimulatedKafka:
    """Makes the clients of one process, which runs at ``site``. ``wall_ns`` is the process's clock, in ns."""

    def __init__(
        self,
        schedule: Schedule,
        cluster: ClusterApi,
        process: Process,
        site: str = "canary",
        wall_ns: Callable[[], int] | None = None,
    ) -> None:
        self.schedule = schedule
        self.cluster = cluster
        self.process = process
        self.site = site
        self.wall_ns = wall_ns or (lambda: 1_790_000_000 * 10**9 + round(schedule.now * 1e9) + process.clock_ns)
        self._made = 0

    def producer(self, config: dict[str, Any], logger: logging.Logger | None = None) -> Producer:
        """Return a producer; a transactional one where the configuration has an id."""
        core = ProducerCore(self._link("producer", config, logger), self.wall_ns)
        if "transactional.id" in core.link.config:
            core.transactions = Transactions(core)
        return Producer(core)

    def consumer(self, config: dict[str, Any], logger: logging.Logger | None = None) -> Consumer:
        """Return a consumer."""
        return Consumer(self._link("consumer", config, logger))

    def admin(self, config: dict[str, Any], logger: logging.Logger | None = None) -> Admin:
        """Return an admin client."""
        return Admin(self._link("admin", config, logger))

    def _link(self, kind: str, config: dict[str, Any], logger: logging.Logger | None) -> Link:
        """Return a new client's link; each asks brokers for metadata in another order."""
        self._made += 1
        name = f"{'producer' if kind == 'admin' else kind}-{self._made}"
        return Link(self.schedule, self.cluster, self.process, self.site, name, config, logger, seed=self._made - 1)

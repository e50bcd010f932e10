"""The producer that the application holds."""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ClusterMetadata

from simulation.clients.producer.batches import Report
from simulation.clients.producer.core import ProducerCore
from simulation.clients.values import failure


class Producer:
    """confluent_kafka.Producer, as far as the canary uses it."""

    def __init__(self, core: ProducerCore) -> None:
        self._core = core

    def __len__(self) -> int:
        self._core.link.check()
        return self._core.unreported + len(self._core.link.events)

    def __bool__(self) -> bool:
        return True

    def __del__(self) -> None:
        self._core.close()

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        on_delivery: Report = None,
    ) -> None:
        if partition < 0:
            raise NotImplementedError("the canary always names the partition")
        self._core.link.check()
        self._core.produce(topic, partition, key, value, on_delivery)

    def poll(self, timeout: float | None = None) -> int:
        link = self._core.link
        link.check()
        if not link.events and timeout != 0:
            deadline = link.deadline(timeout)
            while not link.events and link.wait(deadline):
                pass
        return link.dispatch()

    def flush(self, timeout: float | None = None) -> int:
        self._core.link.check()
        return self._core.flush(self._core.link.deadline(timeout))

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:  # noqa: FBT001, FBT002  # as the real one
        if not blocking:
            raise NotImplementedError("the canary never purges without waiting")
        self._core.link.check()
        self._core.purge(in_queue=in_queue, in_flight=in_flight)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        found = self._core.link.list_topics(topic, timeout)
        self._core.serve_all()
        return found

    def init_transactions(self, timeout: float = -1) -> None:
        self._transactions.init(timeout)

    def begin_transaction(self) -> None:
        self._transactions.begin()

    def commit_transaction(self, timeout: float = -1) -> None:
        self._transactions.commit(timeout)

    def abort_transaction(self, timeout: float = -1) -> None:
        self._transactions.abort(timeout)

    def send_offsets_to_transaction(self, positions: Iterable[Any], group_metadata: Any, timeout: float = -1) -> None:
        self._transactions.send_offsets(list(positions), group_metadata, timeout)

    @property
    def _transactions(self) -> Any:
        self._core.link.check()
        if self._core.transactions is None:
            why = "The Transactional API requires transactional.id to be configured"
            raise KafkaException(failure(KafkaError._NOT_CONFIGURED, why))
        return self._core.transactions

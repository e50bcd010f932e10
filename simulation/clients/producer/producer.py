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
        """Return how many records and events are not reported yet."""
        self._core.link.check()
        return self._core.unreported + len(self._core.link.events)

    def __bool__(self) -> bool:
        """Return True: a producer with nothing to report is one all the same."""
        return True

    def __del__(self) -> None:
        """End when the application lets go of it."""
        self._core.close()

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        on_delivery: Report = None,
    ) -> None:
        """Send a record; ``on_delivery`` is called by a later poll."""
        if partition < 0:
            raise NotImplementedError("the canary always names the partition")
        self._core.link.check()
        self._core.produce(topic, partition, key, value, on_delivery)

    def poll(self, timeout: float | None = None) -> int:
        """Call what is due, or wait for it; return how many calls there were."""
        link = self._core.link
        link.check()
        if not link.events and timeout != 0:
            deadline = link.deadline(timeout)
            while not link.events and link.wait(deadline):
                pass
        return link.dispatch()

    def flush(self, timeout: float | None = None) -> int:
        """Wait until every record is reported; return how many are not."""
        self._core.link.check()
        return self._core.flush(self._core.link.deadline(timeout))

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:  # noqa: FBT001, FBT002  # as the real one
        """Give up what waits, and what is on its way."""
        if not blocking:
            raise NotImplementedError("the canary never purges without waiting")
        self._core.link.check()
        self._core.purge(in_queue=in_queue, in_flight=in_flight)

    def cluster_id(self, timeout: float = -1) -> str:
        """Return the cluster's id, as brokers told it last."""
        return self._core.link.cluster_id(timeout)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """Return the metadata of one topic or of all."""
        found = self._core.link.list_topics(topic, timeout)
        self._core.serve_all()
        return found

    def init_transactions(self, timeout: float = -1) -> None:
        """Get a producer id; former clients with this transactional id are fenced."""
        self._transactions.init(timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._transactions.begin()

    def commit_transaction(self, timeout: float = -1) -> None:
        """Commit the transaction, when all its records are acknowledged."""
        self._transactions.commit(timeout)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Abort the transaction."""
        self._transactions.abort(timeout)

    def send_offsets_to_transaction(self, positions: Iterable[Any], group_metadata: Any, timeout: float = -1) -> None:
        """Let the transaction move the offsets of a group."""
        self._transactions.send_offsets(list(positions), group_metadata, timeout)

    @property
    def _transactions(self) -> Any:
        self._core.link.check()
        if self._core.transactions is None:
            why = "The Transactional API requires transactional.id to be configured"
            raise KafkaException(failure(KafkaError._NOT_CONFIGURED, why))
        return self._core.transactions

"""Connections of a producer to brokers: on each, one request is with the broker, and others wait behind it."""

from collections import deque
from collections.abc import Callable
from functools import partial

from confluent_kafka import KafkaError

from simulation.clients.link import Link
from simulation.clients.producer.batches import Partition, Request
from simulation.kafka.contract import Batch, Produced

_HELD_S = 0.01
"""So long a request is held up until the next has passed."""
_LOOK_S = 0.05
"""How often connections with requests in flight are looked at: whether they broke, or are silent for too long."""

Result = Callable[[Request, int, int, int], None]
"""Called with (request, error, offset, timestamp in ms) of its answer, or of the end of its connection."""


class Connection:
    """To one broker. The first of ``requests`` is with the broker, the others wait behind it."""

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.open = False
        self.failures = 0
        self.held_until = 0.0
        self.requests: deque[Request] = deque()
        self.sent = 0
        """Number of the request that the broker has: answers to others come from a connection that broke."""


class Connections:
    """All connections of a producer."""

    def __init__(self, link: Link, acks: int, on_result: Result, *, idempotent: bool) -> None:
        self.link = link
        self.acks = acks
        self.idempotent = idempotent
        self._on_result = on_result
        self._by_broker: dict[int, Connection] = {}
        self._acks_s = link.seconds("request.timeout.ms")
        self._backoff_s = link.seconds("retry.backoff.ms")
        self._looking = False
        link.on_moved = self._break

    def to_leader(self, one: Partition) -> Connection | None:
        """Return the connection to the partition's leader; None while there is none."""
        link = self.link
        known = link.place(one.topic, one.partition)
        if known is None or known.leader < 0:
            link.refresh(self._backoff_s)
            known = link.place(one.topic, one.partition)
            if known is None or known.leader < 0:
                return None
        connection = self._by_broker.get(known.leader)
        if connection is None:
            connection = self._by_broker[known.leader] = Connection(known.leader)
        if not connection.open:
            if link.schedule.now < connection.held_until:
                return None
            if not link.reaches(known.leader):
                self._hold(connection)
                link.refresh(self._backoff_s)
                return None
            connection.open, connection.failures = True, 0
        return connection

    def send(self, connection: Connection, request: Request) -> None:
        """Send a request behind those that have no answer yet."""
        one = request.partition
        connection.requests.append(request)
        if not self._looking:
            self._looking = True
            self.link.after(_LOOK_S, self._look)
        if len(connection.requests) == 1:
            if self.link.cluster.overtaken(one.topic, one.partition):
                self.link.after(_HELD_S, partial(self._let_pass, connection, connection.sent))
            else:
                self._transmit(connection)

    def _transmit(self, connection: Connection) -> None:
        """Give the first request of a connection to its broker."""
        request = connection.requests[0]
        one, link = request.partition, self.link
        connection.sent += 1
        number = connection.sent
        batch = Batch(
            [(record.key, record.value, record.timestamp_ms) for record in request.records],
            *request.pid,
            first_sequence=request.first if self.idempotent else -1,
            transactional_id=link.config.get("transactional.id"),
        )

        def answered(produced: Produced) -> None:
            if number == connection.sent and connection.requests:
                connection.requests.popleft()
                if connection.requests:
                    self._transmit(connection)
                if not request.purged:
                    self._on_result(request, produced.error, produced.offset, produced.timestamp_ms)

        place = (one.topic, one.partition)
        link.cluster.produce(
            link.site, connection.broker, *place, batch, self.acks, self._acks_s, link.guarded(answered)
        )

    def _let_pass(self, connection: Connection, sent: int) -> None:
        """Send what was held up on its way, after the next request of its partition."""
        requests = connection.requests
        if connection.sent != sent or not requests:
            return  # the connection broke meanwhile
        if len(requests) > 1 and requests[1].partition is requests[0].partition:
            requests.insert(1, requests.popleft())
        self._transmit(connection)

    def _look(self) -> None:
        """See whether connections broke, and whether a request is without an answer for too long."""
        now, self._looking = self.link.schedule.now, False
        for connection in self._by_broker.values():
            if not connection.requests:
                continue
            if self.link.gone(connection.broker):
                self._disconnect(connection, KafkaError._TRANSPORT, "Disconnected")
            elif connection.requests[0].deadline <= now:
                self._disconnect(connection, KafkaError._TIMED_OUT, "1 request(s) timed out: disconnect")
            else:
                self._looking = True
        if self._looking:
            self.link.after(_LOOK_S, self._look)

    def _break(self) -> None:
        """The client is in another cluster: nothing answers any more what was asked in the former one."""
        for connection in self._by_broker.values():
            self.link.after(0, partial(self._disconnect, connection, KafkaError._TRANSPORT, "Disconnected"))

    def _disconnect(self, connection: Connection, code: int, why: str) -> None:
        requests = [one for one in connection.requests if not one.purged]
        connection.requests.clear()
        connection.open = False
        connection.sent += 1
        self._hold(connection)
        self.link.error(code, f"{self.link.name}: broker {connection.broker}: {why}")
        for request in requests:
            self._on_result(request, code, -1, -1)

    def _hold(self, connection: Connection) -> None:
        """Connect again after a pause that grows."""
        link = self.link
        pause_s = link.seconds("reconnect.backoff.ms") * 2**connection.failures
        connection.failures = min(connection.failures + 1, 10)
        connection.held_until = link.schedule.now + min(pause_s, link.seconds("reconnect.backoff.max.ms"))

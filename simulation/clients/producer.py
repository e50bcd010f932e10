"""A producer: queues, requests in flight, retries, sequence numbers and producer epochs as librdkafka 2.16 has them.

Without a linger time, a record that finds its partition ready is a batch by itself. A broker answers the
requests of one connection one after another, so only the first request of a connection is with the cluster.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ClusterMetadata

from simulation.clients.link import PROPAGATION_S, Link
from simulation.clients.values import Message, failure
from simulation.kafka.contract import Batch, Produced

_WINDOW = 5
"""Requests of a partition that an idempotent producer has in flight at most: what a broker recognises again."""
_UNSET = 1_000_000
_BATCH = 10_000
_HELD_S = 0.01
"""So long a request is held up until the next has passed."""
_LOOK_S = 0.05
"""How often connections with requests in flight are looked at: whether they broke, or are silent for too long."""
_PID_AGAIN_S = 0.5

_REFRESH = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.KAFKA_STORAGE_ERROR,
    }
)
"""Errors of a request after which the client asks for metadata, and sends again."""
_RETRY = _REFRESH | {
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.INVALID_MSG,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
_COUNTED = _RETRY - _REFRESH | {KafkaError._TRANSPORT, KafkaError.KAFKA_STORAGE_ERROR}
"""Errors that count as a retry: their write may have happened."""
_SEQUENCE = frozenset({KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.UNKNOWN_PRODUCER_ID})

Report = Callable[[KafkaError | None, Message], object] | None


class _Record:
    """A record that is not reported yet. ``number`` counts those of its partition from 1."""

    __slots__ = ("due", "key", "number", "report", "timestamp_ms", "value")

    def __init__(
        self, number: int, key: bytes | None, value: bytes | None, timestamp_ms: int, due: float, report: Report
    ) -> None:
        self.number = number
        self.key = key
        self.value = value
        self.timestamp_ms = timestamp_ms
        self.due = due
        self.report = report


class _Request:
    """A batch that was sent, or is to be sent again just as it was."""

    __slots__ = ("deadline", "first", "partition", "pid", "purged", "records", "retries")

    def __init__(self, partition: "Partition", records: list[_Record]) -> None:
        self.partition = partition
        self.records = records
        self.first = 0
        """Sequence number of the first record."""
        self.pid = (-1, -1)
        self.deadline = 0.0
        self.retries = 0
        self.purged = False


class Partition:
    """What a producer has for one partition."""

    def __init__(self, topic: str, partition: int, now: float) -> None:
        self.topic = topic
        self.partition = partition
        self.queue: deque[_Record] = deque()
        self.retry: list[_Request] = []
        """To be sent again, in their order, before ``queue``."""
        self.flight: list[_Request] = []
        self.used_at = now
        self.held_until = 0.0
        self.last = 0
        """Number of the last record."""
        self.base = 0
        """Number of the record with sequence number 0 under ``pid``."""
        self.pid = (-1, -1)
        self.next_ack = 0
        self.next_error = 0
        self.acked = 0
        """Number of the last record that was acknowledged."""
        self.draining = False
        self.registered = False
        """Whether it takes part in the transaction that is open."""

    def waiting(self) -> bool:
        return bool(self.retry or self.queue)

    def first_waiting(self) -> int:
        return self.retry[0].records[0].number if self.retry else self.queue[0].number


class _Connection:
    """To one broker. The first of ``requests`` is with the broker, the others wait behind it."""

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.open = False
        self.failures = 0
        self.held_until = 0.0
        self.requests: deque[_Request] = deque()
        self.sent = 0
        """Number of the request that the broker has: answers to others come from a connection that broke."""


class ProducerCore:
    """What a producer does. ``Producer`` is what the application holds: when it is gone, this ends.

    ``state`` is that of the producer id: "wait", "assigned", "drain", "wait abort" (a transaction must be aborted
    first), "fatal". ``wall_ns`` is the process's clock.
    """

    def __init__(self, link: Link, wall_ns: Callable[[], int]) -> None:
        self.link = link
        self.idempotent = link.flag("enable.idempotence")
        self._window = min(
            _WINDOW if self.idempotent else _UNSET, int(link.config["max.in.flight.requests.per.connection"])
        )
        acks = link.config["request.required.acks"]
        self.acks = -1 if self.idempotent or str(acks) in {"all", "-1"} else int(acks)
        self.state = "wait" if self.idempotent else "assigned"
        self.pid = (-1, -1)
        self.fatal: KafkaError | None = None
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.unreported = 0
        self.transactions: Any = None
        """Of a transactional producer: simulation.clients.transactions.Transactions."""
        self.request_s = link.seconds("socket.timeout.ms")
        self._wall_ns = wall_ns
        self._connections: dict[int, _Connection] = {}
        self._message_s = link.seconds("message.timeout.ms")
        self._acks_s = link.seconds("request.timeout.ms")
        self._backoff_s = link.seconds("retry.backoff.ms")
        self._backoff_most_s = link.seconds("retry.backoff.max.ms")
        self._most = int(link.config["queue.buffering.max.messages"])
        self._most_retries = int(link.config["message.send.max.retries"])
        self._refresh_s = link.seconds("topic.metadata.refresh.interval.ms")
        self._refresh_at = 0.0
        self._linger_s = link.seconds("queue.buffering.max.ms")
        self._batch_bytes = int(link.config["batch.size"])
        self._lingering = False
        self._looking = False
        self._retrying = False
        self._asking_pid = False
        self._in_flight = 0
        """Partitions with requests in flight."""

    def close(self) -> None:
        """End: what is queued is gone, what is on its way lands and nobody hears of it."""
        self.link.close()
        self.partitions.clear()

    # ---- taking records

    def produce(self, topic: str, partition: int, key: bytes | None, value: bytes | None, report: Report) -> None:
        link = self.link
        now = link.schedule.now
        if self.unreported >= self._most:
            raise BufferError(KafkaError(KafkaError._QUEUE_FULL).str())
        if self.fatal is not None:
            raise _refused(KafkaError._FATAL)
        if self.transactions is not None and self.transactions.state != "in transaction":
            raise _refused(KafkaError._STATE)
        if now >= self._refresh_at:
            self._refresh_at = now + self._refresh_s
            link.refresh()
        one = self.partitions.get((topic, partition))
        if one is None:
            one = self._new_partition(topic, partition)
        elif topic not in link.topics and now - one.used_at > PROPAGATION_S:
            link.refresh(self._backoff_s)
            if topic not in link.topics and link.topics:
                raise _refused(KafkaError._UNKNOWN_TOPIC)
        one.last += 1
        timestamp_ms = self._wall_ns() // 1_000_000
        one.queue.append(_Record(one.last, key, value, timestamp_ms, now + self._message_s, report))
        self.unreported += 1
        if not self._linger_s:
            self.serve(one)
        elif not self._lingering:
            self._lingering = True
            link.after(self._linger_s, self.send_now)

    def _new_partition(self, topic: str, partition: int) -> Partition:
        link = self.link
        known = link.topics.get(topic)
        if known is None or known.error:
            link.refresh()
            known = link.topics.get(topic)
        if known is not None and not known.error and partition >= len(known.partitions):
            raise _refused(KafkaError._UNKNOWN_PARTITION)
        one = self.partitions[topic, partition] = Partition(topic, partition, link.schedule.now)
        return one

    # ---- sending

    def serve(self, one: Partition) -> None:
        """Send what the partition has, as far as it may be sent now."""
        if not one.waiting() or self.fatal is not None or (self.idempotent and not self._has_sequence(one)):
            return
        connection = None if self.link.schedule.now < one.held_until else self._connected(one)
        if connection is None:
            self.retry_later()
            return
        while one.waiting() and len(one.flight) < self._window:
            if self.link.schedule.now < one.held_until:
                return  # what was sent just now was refused at once
            self._send(connection, self._next_request(one))

    def _has_sequence(self, one: Partition) -> bool:
        """Return whether it is known under which sequence number the partition's next record goes."""
        if self.state == "wait":
            self.ask_pid()
            if self.state == "wait":
                self.retry_later()
        if self.state != "assigned" or (one.draining and one.flight):
            return False
        one.draining = False
        if self.transactions is not None and not self.transactions.may_send(one):
            self.retry_later()
            return False
        if one.pid != self.pid:
            if one.flight:
                return False
            one.pid, one.base, one.next_ack, one.next_error = self.pid, one.first_waiting(), 0, 0
        return True

    def send_now(self) -> None:
        """Send what was waiting for more of its batch."""
        self._lingering = False
        self.serve_all()

    def serve_all(self) -> None:
        for one in list(self.partitions.values()):
            self.serve(one)

    def _connected(self, one: Partition) -> _Connection | None:
        """Return the connection to the partition's leader; None while there is none."""
        link = self.link
        known = link.place(one.topic, one.partition)
        if known is None or known.leader < 0:
            link.refresh(self._backoff_s)
            known = link.place(one.topic, one.partition)
            if known is None or known.leader < 0:
                return None
        connection = self._connections.get(known.leader)
        if connection is None:
            connection = self._connections[known.leader] = _Connection(known.leader)
        if not connection.open:
            if link.schedule.now < connection.held_until:
                return None
            if not link.reaches(known.leader):
                self._hold(connection)
                link.refresh(self._backoff_s)
                return None
            connection.open, connection.failures = True, 0
        return connection

    def _hold(self, connection: _Connection) -> None:
        """Connect again after a pause that grows."""
        link = self.link
        pause_s = link.seconds("reconnect.backoff.ms") * 2**connection.failures
        connection.failures = min(connection.failures + 1, 10)
        connection.held_until = link.schedule.now + min(pause_s, link.seconds("reconnect.backoff.max.ms"))

    def _next_request(self, one: Partition) -> _Request:
        if one.retry:
            return one.retry.pop(0)
        queue = one.queue
        if len(queue) == 1:
            return _Request(one, [queue.popleft()])
        records, room = [queue.popleft()], self._batch_bytes
        room -= len(records[0].value or b"")
        while queue and len(records) < _BATCH and (room := room - len(queue[0].value or b"")) >= 0:
            records.append(queue.popleft())
        return _Request(one, records)

    def _send(self, connection: _Connection, request: _Request) -> None:
        one, now = request.partition, self.link.schedule.now
        first = request.records[0]
        request.first, request.pid = first.number - one.base, one.pid
        request.deadline = now + min(self.request_s, max(first.due - now, 0.1))
        if not one.flight:
            self._in_flight += 1
        one.flight.append(request)
        connection.requests.append(request)
        if not self._looking:
            self._looking = True
            self.link.after(_LOOK_S, self._look)
        if len(connection.requests) == 1:
            if self.link.cluster.overtaken(one.topic, one.partition):
                self.link.after(_HELD_S, partial(self._let_pass, connection, connection.sent))
            else:
                self._transmit(connection)

    def _transmit(self, connection: _Connection) -> None:
        """Give the first request of a connection to its broker."""
        request = connection.requests[0]
        one, link = request.partition, self.link
        connection.sent += 1
        number = connection.sent
        idempotent = self.idempotent
        batch = Batch(
            [(record.key, record.value, record.timestamp_ms) for record in request.records],
            *request.pid,
            first_sequence=request.first if idempotent else -1,
            transactional_id=link.config.get("transactional.id"),
        )

        def answered(produced: Produced) -> None:
            if number == connection.sent and connection.requests:
                connection.requests.popleft()
                if connection.requests:
                    self._transmit(connection)
                if not request.purged:
                    self._result(request, produced.error, produced.offset, produced.timestamp_ms)

        place = (one.topic, one.partition)
        link.cluster.produce(
            link.site, connection.broker, *place, batch, self.acks, self._acks_s, link.guarded(answered)
        )

    def _let_pass(self, connection: _Connection, sent: int) -> None:
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
        for connection in self._connections.values():
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

    def _disconnect(self, connection: _Connection, code: int, why: str) -> None:
        requests = [one for one in connection.requests if not one.purged]
        connection.requests.clear()
        connection.open = False
        connection.sent += 1
        self._hold(connection)
        self.link.error(code, f"{self.link.name}: broker {connection.broker}: {why}")
        for request in requests:
            self._result(request, code, -1, -1)

    # ---- answers

    def _result(self, request: _Request, code: int, offset: int, timestamp_ms: int) -> None:
        """Take in what became of a request."""
        one = request.partition
        one.flight.remove(request)
        after = request.first + len(request.records)
        if code == KafkaError.DUPLICATE_SEQUENCE_NUMBER and self.idempotent:
            code, offset = 0, -1
        if not code:
            if self.idempotent:
                self._acknowledged(one, request, after)
            for number, record in enumerate(request.records):
                self._report(one, record, None, offset + number if offset >= 0 else -1, timestamp_ms)
        else:
            self._failed(one, request, code, after)
        if not one.flight:
            self._in_flight -= 1
            if not self._in_flight and self.state == "drain":
                self._drained()
        self.serve(one)

    def _acknowledged(self, one: Partition, request: _Request, after: int) -> None:
        first, last = request.records[0].number, request.records[-1].number
        if one.acked < first - 1:
            self._acknowledge_before(one, last)
        elif request.first != one.next_ack and request.first == one.next_error:
            one.next_error = after
            text = f"ProduceRequest for {one.topic} [{one.partition}] succeeded when expecting failure"
            self.die(KafkaError._INCONSISTENT, text)
            return
        if one.next_error == one.next_ack:
            one.next_error = after
        one.next_ack = after
        one.acked = max(one.acked, last)

    def _acknowledge_before(self, one: Partition, last: int) -> None:
        """Report what waits to be sent again as written: a later record was acknowledged, and order is kept."""
        acked = [record for request in one.retry for record in request.records if record.number <= last]
        one.retry = [request for request in one.retry if request.records[0].number > last]
        while one.queue and one.queue[0].number <= last:
            acked.append(one.queue.popleft())
        for record in acked:
            self._report(one, record, None, -1, -1)

    def _failed(self, one: Partition, request: _Request, code: int, after: int) -> None:
        what = f"ProduceRequest for {one.topic} [{one.partition}] with {len(request.records)} message(s) failed"
        again, counts = code in _RETRY, code in _COUNTED
        if self.idempotent:
            if request.pid != one.pid:
                again = False
            elif code in _SEQUENCE:
                again, counts = self._out_of_sequence(one, request, code, what), False
            one.next_error = after
        if again and (not counts or request.retries < self._most_retries):
            self._send_again(one, request, code, counted=counts)
            return
        if self.transactions is not None:
            self.transactions.produce_failed(code, what)
        elif self.idempotent:
            self.bump("message sequence gap", code)
        error = KafkaError(KafkaError._MSG_TIMED_OUT if code == KafkaError._TIMED_OUT else code)
        for record in request.records:
            self._report(one, record, error, -1, -1)

    def _out_of_sequence(self, one: Partition, request: _Request, code: int, what: str) -> bool:
        """A broker does not go on with this sequence number. Returns whether the request may be sent once more."""
        ahead = request.first - one.next_ack
        if code == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if ahead > 0:
                self.bump("skipped sequence numbers", code)
                return True
            why = "with rewound sequence number" if ahead else "due to sequence desynchronization with broker"
            self.die(code, f"{what} {why} ({_shown(request.pid)}, base seq {request.first})")
            return False
        if self.transactions is None and (request.retries or one.next_error != request.first):
            self.die(code, f"{what} due to unknown producer id: unable to retry without risking duplication/reordering")
            return False
        self.bump("unknown producer id", code)
        return self.transactions is None

    def _send_again(self, one: Partition, request: _Request, code: int, *, counted: bool) -> None:
        request.retries += counted
        pause_s = self._backoff_s * 2 ** min(max(request.retries - 1, 0), 16)
        one.held_until = self.link.schedule.now + min(pause_s, self._backoff_most_s)
        one.draining = self.idempotent
        one.retry.append(request)
        one.retry.sort(key=_number)
        if code in _REFRESH:
            self.link.refresh()
        self.retry_later()

    def _report(
        self, one: Partition, record: _Record, error: KafkaError | None, offset: int, timestamp_ms: int
    ) -> None:
        """Have the next poll call the record's callback."""
        if error is not None and self.transactions is not None:
            self.transactions.failures += 1
        told = record.timestamp_ms if timestamp_ms < 0 else timestamp_ms
        message = Message(one.topic, one.partition, offset, record.key, record.value, told, -1, error)
        self.link.emit(self._reported, record.report, error, message)

    def _reported(self, report: Report, error: KafkaError | None, message: Message) -> None:
        self.unreported -= 1
        if report is not None:
            report(error, message)

    # ---- what waits

    def retry_later(self) -> None:
        if not self._retrying:
            self._retrying = True
            self.link.after(self._backoff_s, self._retry_now)

    def _retry_now(self) -> None:
        self._retrying = False
        for one in list(self.partitions.values()):
            if one.waiting():
                self._expire(one)
                self.serve(one)
                if one.waiting() and not one.flight:
                    self.retry_later()

    def _expire(self, one: Partition) -> None:
        """Give up records that wait for longer than ``message.timeout.ms``."""
        now = self.link.schedule.now
        known = self.link.place(one.topic, one.partition)
        waiting = [record for request in one.retry for record in request.records] + list(one.queue)
        unknown = known is None and bool(self.link.topics) and now - one.used_at > PROPAGATION_S
        expired = waiting if unknown else [record for record in waiting if record.due <= now]
        if not expired:
            return
        gone = {record.number for record in expired}
        for request in one.retry:
            request.records = [record for record in request.records if record.number not in gone]
        one.retry = [request for request in one.retry if request.records]
        one.queue = deque(record for record in one.queue if record.number not in gone)
        error = KafkaError(KafkaError._UNKNOWN_TOPIC if unknown else KafkaError._MSG_TIMED_OUT)
        for record in expired:
            self._report(one, record, error, -1, -1)
        if self.idempotent and self.pid[0] >= 0 and known is not None and known.leader >= 0:
            why = f"{len(expired)} message(s) timed out on {one.topic} [{one.partition}]"
            self.bump(why, KafkaError._TIMED_OUT)

    def purge(self, *, in_queue: bool, in_flight: bool, aborting: bool = False) -> None:
        """Give up what waits and what is on its way; ``aborting``: sequence numbers go on as if it had not been."""
        for one in list(self.partitions.values()):
            if in_queue:
                waiting = [record for request in one.retry for record in request.records] + list(one.queue)
                one.retry.clear()
                one.queue.clear()
                if aborting:
                    one.base += len(waiting)
                for record in waiting:
                    self._report(one, record, KafkaError(KafkaError._PURGE_QUEUE), -1, -1)
            if in_flight:
                for request in list(one.flight):
                    request.purged = True
                    self._result(request, KafkaError._PURGE_INFLIGHT, -1, -1)

    def flush(self, deadline: float | None) -> int:
        """Poll until everything is reported; returns how many are not."""
        link = self.link
        self.send_now()
        while True:
            link.dispatch()
            if not self.unreported or (not link.wait(deadline) and not link.events):
                return self.unreported

    # ---- the producer id

    def ask_pid(self) -> None:
        """Ask for a producer id; again after a pause if there is no answer."""
        if self._asking_pid:
            return
        if self.transactions is not None:
            got = self.transactions.ask_pid()
        else:
            found = self.link.ask_any()
            code, *pid = self.link.cluster.init_producer_id(found[0], None, 0.0) if found is not None else (1, -1, -1)
            got = None if code else (pid[0], pid[1])
            if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                why = f"Failed to acquire idempotence PID: {KafkaError(code).str()}"
                self.link.after(0, lambda: self.die(code, why))
        if got is not None:
            self.pid = got
            self.enter("assigned")
        elif self.state == "wait":
            self._asking_pid = True
            self.link.after(_PID_AGAIN_S, self._ask_pid_again)

    def _ask_pid_again(self) -> None:
        self._asking_pid = False
        if self.state == "wait" and self.fatal is None:
            self.ask_pid()
            if self.state == "assigned":
                self.serve_all()

    def enter(self, state: str) -> None:
        """Go to another state of the producer id."""
        if self.fatal is None or state in {"drain", "fatal"}:
            self.state = state
            if self.transactions is not None:
                self.transactions.pid_state_changed(state)

    def bump(self, why: str, code: int) -> None:
        """Take a new producer epoch as soon as nothing is in flight: sequence numbers begin anew."""
        if self.transactions is not None:
            self.enter("wait abort")
            self.transactions.fail(code, why, bump=True)
        else:
            self.drain(why)

    def drain(self, why: str) -> None:
        self.link.debug(
            "eos",
            "DRAIN",
            f"[thrd:main]: Beginning partition drain in state {self.state} for {_shown(self.pid)} epoch bump "
            f"for {self._in_flight} partition(s) with in-flight requests: {why}",
        )
        self.enter("drain")
        if not self._in_flight:
            self._drained()

    def _drained(self) -> None:
        if self.fatal is not None:
            return
        if self.transactions is not None:
            self.enter("wait")
            self.ask_pid()
            return
        self.pid = (self.pid[0], self.pid[1] + 1)
        self.enter("assigned")
        self.serve_all()

    def die(self, code: int, text: str) -> None:
        """End for good: the next poll raises the error, and produce() refuses."""
        if self.fatal is not None:
            return
        self.fatal = KafkaError(code, text, fatal=True)
        self.link.log(logging.CRITICAL, "FATAL", f"[thrd:main]: Fatal error: {KafkaError(code).str()}: {text}")
        self.enter("fatal")
        self.link.emit(self._raise, self.fatal)
        if self.transactions is not None:
            self.transactions.died(self.fatal)
        self.purge(in_queue=True, in_flight=False)

    def _raise(self, error: KafkaError) -> None:
        raise KafkaException(error)


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
        assert partition >= 0, "a partition is given"
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
        assert blocking
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


def _refused(code: int) -> KafkaException:
    return KafkaException(failure(code, f"Unable to produce message: {KafkaError(code).str()}"))


def _number(request: _Request) -> int:
    return request.records[0].number


def _shown(pid: tuple[int, int]) -> str:
    return f"PID{{Id:{pid[0]},Epoch:{pid[1]}}}"

"""A producer: queues, requests in flight, retries, sequence numbers and producer epochs as librdkafka 2.16 has them.

Without a linger time, a record that finds its partition ready is a batch by itself. A broker answers the
requests of one connection one after another, so only the first request of a connection is with the cluster.
"""

from collections import deque
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

from simulation.clients.link import PROPAGATION_S, Link
from simulation.clients.producer.batches import Partition, PendingRecord, Report, Request
from simulation.clients.producer.connections import Connection, Connections
from simulation.clients.producer.producer_id import ProducerId, shown
from simulation.clients.values import Message, failure

_WINDOW = 5
"""Requests of a partition that an idempotent producer has in flight at most: what a broker recognises again."""
_UNSET = 1_000_000
_BATCH = 10_000

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


class ProducerCore(ProducerId):
    """What a producer does. ``Producer`` is what the application holds: when it is gone, this ends.

    ``wall_ns`` is the process's clock.
    """

    def __init__(self, link: Link, wall_ns: Callable[[], int]) -> None:
        super().__init__(link)
        self._window = min(
            _WINDOW if self.idempotent else _UNSET, int(link.config["max.in.flight.requests.per.connection"])
        )
        acks = link.config["request.required.acks"]
        self.acks = -1 if self.idempotent or str(acks) in {"all", "-1"} else int(acks)
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.unreported = 0
        self.request_s = link.seconds("socket.timeout.ms")
        self._wall_ns = wall_ns
        self._connections = Connections(link, self.acks, self._result, idempotent=self.idempotent)
        self._message_s = link.seconds("message.timeout.ms")
        self._backoff_s = link.seconds("retry.backoff.ms")
        self._backoff_most_s = link.seconds("retry.backoff.max.ms")
        self._most = int(link.config["queue.buffering.max.messages"])
        self._most_retries = int(link.config["message.send.max.retries"])
        self._refresh_s = link.seconds("topic.metadata.refresh.interval.ms")
        self._refresh_at = 0.0
        self._linger_s = link.seconds("queue.buffering.max.ms")
        self._batch_bytes = int(link.config["batch.size"])
        self._lingering = False
        self._retrying = False

    def close(self) -> None:
        """End: what is queued is gone, what is on its way lands and nobody hears of it."""
        self.link.close()
        self.partitions.clear()

    # ---- taking records

    def produce(self, topic: str, partition: int, key: bytes | None, value: bytes | None, report: Report) -> None:
        """Take a record, and send it as soon as it may be sent."""
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
        one.queue.append(PendingRecord(one.last, key, value, timestamp_ms, now + self._message_s, report))
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
        connection = None if self.link.schedule.now < one.held_until else self._connections.to_leader(one)
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
        """Send what may be sent now of every partition."""
        for one in list(self.partitions.values()):
            self.serve(one)

    def _send(self, connection: Connection, request: Request) -> None:
        one, now = request.partition, self.link.schedule.now
        first = request.records[0]
        request.first, request.pid = first.number - one.base, one.pid
        request.deadline = now + min(self.request_s, max(first.due - now, 0.1))
        if not one.flight:
            self.in_flight += 1
        one.flight.append(request)
        self._connections.send(connection, request)

    def _next_request(self, one: Partition) -> Request:
        if one.retry:
            return one.retry.pop(0)
        queue = one.queue
        if len(queue) == 1:
            return Request(one, [queue.popleft()])
        records, room = [queue.popleft()], self._batch_bytes
        room -= len(records[0].value or b"")
        while queue and len(records) < _BATCH and (room := room - len(queue[0].value or b"")) >= 0:
            records.append(queue.popleft())
        return Request(one, records)

    # ---- answers

    def _result(self, request: Request, code: int, offset: int, timestamp_ms: int) -> None:
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
            self.in_flight -= 1
            if not self.in_flight and self.state == "drain":
                self.drained()
        self.serve(one)

    def _acknowledged(self, one: Partition, request: Request, after: int) -> None:
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

    def _failed(self, one: Partition, request: Request, code: int, after: int) -> None:
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

    def _out_of_sequence(self, one: Partition, request: Request, code: int, what: str) -> bool:
        """A broker does not go on with this sequence number. Returns whether the request may be sent once more."""
        ahead = request.first - one.next_ack
        if code == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if ahead > 0:
                self.bump("skipped sequence numbers", code)
                return True
            why = "with rewound sequence number" if ahead else "due to sequence desynchronization with broker"
            self.die(code, f"{what} {why} ({shown(request.pid)}, base seq {request.first})")
            return False
        if self.transactions is None and (request.retries or one.next_error != request.first):
            self.die(code, f"{what} due to unknown producer id: unable to retry without risking duplication/reordering")
            return False
        self.bump("unknown producer id", code)
        return self.transactions is None

    def _send_again(self, one: Partition, request: Request, code: int, *, counted: bool) -> None:
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
        self, one: Partition, record: PendingRecord, error: KafkaError | None, offset: int, timestamp_ms: int
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
        """Look again after a pause at what waits."""
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


def _refused(code: int) -> KafkaException:
    return KafkaException(failure(code, f"Unable to produce message: {KafkaError(code).str()}"))


def _number(request: Request) -> int:
    return request.records[0].number

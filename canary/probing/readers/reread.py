"""Reads a range once more: the one routine behind every second look (ARCHITECTURE decision 6).

Confirmation before an alarm, the tail after a change of leader, the overlap at start, the scrubber: each is a
RereadRequest. Each gets a fresh client, so that no position, cache or session of an earlier reader can hide what the
log holds now, and always ends in exactly one ``RereadEnded``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from canary.anomalies.violation import RereadRequest
from canary.facts import Fact, Facts, Isolation, Positioned, RereadEnded
from canary.kafka.client_inbox import ClientInbox, cluster_of
from canary.kafka.quiet import ErrorReporter
from canary.kafka.responses import text_of
from canary.probing.readers.consumer import facts_of, open_consumer, take
from canary.probing.readers.tail import ASK_S, OUT_OF_RANGE
from canary.threads import system
from canary.threads.ports import Clock, Inbox
from canary.threads.worker import Worker, in_background

log = structlog.get_logger(__name__)

PACE_S = 0.25
"""Longest wait in one poll(): bounds the reaction to stop."""
IDLE_S = 1.0
"""The same for a thread that has nothing to read."""
_FIRST_ASK_S = 0.25
"""How long the first answer about the log's bounds is waited for; the next one twice as long, at most ASK_S."""
_AGAIN_S = 0.05
_PROMPT: Mapping[str, object] = {"fetch.wait.max.ms": 10, "statistics.interval.ms": 100}
"""A broker tells the end of a log at once, and does not wait for more to come; the client soon tells of its leader."""


class _Queue:
    """What is to be read, the oldest first; but never one partition twice at once, and dead partitions after the rest.

    A partition whose last re-read ran into silence is tried again only when nothing else waits, so that it cannot hold
    every reader for the whole timeout.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, RereadRequest] = {}
        self._numbers = itertools.count()
        self._busy: set[tuple[str, int]] = set()
        self._silent: set[tuple[str, int]] = set()
        self._changed = system.condition()

    def put(self, request: RereadRequest) -> None:
        with self._changed:
            self._waiting[next(self._numbers)] = request
            self._changed.notify_all()

    def take(self, timeout: float) -> RereadRequest | None:
        """Return the next request, or None when there is none to begin within ``timeout`` seconds."""
        with self._changed:
            if (number := self._best()) is None:
                self._changed.wait(timeout)
                number = self._best()
            if number is None:
                return None
            request = self._waiting.pop(number)
            self._busy.add((request.topic, request.partition))
            return request

    def _best(self) -> int | None:
        free = [(n, (r.topic, r.partition)) for n, r in self._waiting.items()]
        free = [(n, place) for n, place in free if place not in self._busy]
        return min(free, key=lambda item: (item[1] in self._silent, item[0]), default=(None,))[0]

    def done(self, request: RereadRequest, *, silent: bool) -> None:
        place = (request.topic, request.partition)
        with self._changed:
            self._busy.discard(place)
            (self._silent.add if silent else self._silent.discard)(place)
            self._changed.notify_all()


class _Outcome(NamedTuple):
    reached: int
    complete: bool
    error: str | None = None
    silent: bool = False

    def ended(self, request: RereadRequest, at_ns: int, leader_epoch: int | None, cluster_id: str) -> RereadEnded:
        """Log how the re-read ended, and return the fact of it; its client was told the last two."""
        log.info("reread", request=request.request_id, reason=request.reason, topic=request.topic,
                 partition=request.partition, start=request.start, end=request.end, reached=self.reached,
                 complete=self.complete, error=self.error, leader_epoch=leader_epoch)  # fmt: skip
        place = (request.isolation, request.topic, request.partition, request.start, request.end)
        told = (leader_epoch, cluster_id)
        return RereadEnded(at_ns, request.request_id, *place, self.reached, self.complete, self.error, *told)


class _Leader:
    """The ``stats_cb`` of a re-read's client: the leader epoch that it learned first, by ``Metadata``.

    A client never goes back to an older epoch: what it is told later is of this one or of a newer one. ``named`` is set
    by the first statistics that name a leader; ``epoch`` stays None where brokers give none.
    """

    def __init__(self, request: RereadRequest) -> None:
        self._topic, self._partition = request.topic, str(request.partition)
        self.named = False
        self.epoch: int | None = None

    def __call__(self, statistics: str) -> None:
        """Take the statistics (JSON) of the last interval."""
        if self.named:
            return
        topic = orjson.loads(statistics)["topics"].get(self._topic, {"partitions": {}})
        one = topic["partitions"].get(self._partition, {"leader": -1})
        self.named = one["leader"] >= 0
        if self.named and one["leader_epoch"] >= 0:
            self.epoch = one["leader_epoch"]


class RereadWorker(Worker):
    """A few threads that answer RereadRequests. At its end what waits is left unanswered, what runs ends incomplete.

    Args:
        config: returns librdkafka properties for a client; those that decide what is seen go over them
            (canary.probing.readers.consumer).
        tags: returns the tag that marks records as ours in the topic's present incarnation.
        silence_s: a re-read in which nothing at all was heard for so long ends incomplete.
        threads: how many run at once.
    """

    def __init__(
        self,
        config: Callable[[], Mapping[str, object]],
        tags: Callable[[str], bytes],
        inbox: Inbox,
        clock: Clock,
        *,
        silence_s: float = 5.0,
        threads: int = 2,
    ) -> None:
        super().__init__("reread", threads)
        self._config = config
        self._tags = tags
        self._inbox = inbox
        self._clock = clock
        self._silence_s = silence_s
        self._queue = _Queue()

    def ask(self, request: RereadRequest) -> None:
        """Take the request; its answer comes as facts. Thread-safe; a request asked twice is answered twice."""
        self._queue.put(request)

    def run(self) -> None:
        """Answer one request at a time until stopped."""
        while not self.stopping.is_set():
            request = self._queue.take(IDLE_S)
            if request is not None:
                self._answer(request)

    def _answer(self, request: RereadRequest) -> None:
        consumer = f"reread-{request.request_id}"
        isolation: Isolation = "read_committed" if request.isolation == "read_committed" else "read_uncommitted"
        outcome = _Outcome(request.start, complete=False, error="it broke off")
        client, leader = None, _Leader(request)
        properties = {**_PROMPT, **self._config(), "stats_cb": leader}
        try:
            tag = self._tags(request.topic)
            client = open_consumer(properties, consumer, isolation, self._inbox, self._clock)
            outcome = self._read(client, _Range(request, consumer, isolation, tag, self._clock, leader))
        except KafkaException as error:
            outcome = _Outcome(request.start, complete=False, error=text_of(error.args[0]))
        finally:
            told = (leader.epoch, cluster_of(client) or "")
            self._inbox.put([outcome.ended(request, self._clock.now_ns(), *told)])
            if client is not None:
                in_background(client.close, f"{consumer}-closing")
            self._queue.done(request, silent=outcome.silent)

    def _read(self, client: Any, wanted: _Range) -> _Outcome:
        """Read what is wanted, putting what is delivered into the inbox as it comes."""
        inbox = ClientInbox(self._inbox, self._clock, wanted.consumer, lambda: cluster_of(client))
        begun = self._begin(client, wanted, inbox)
        if begun is not None:
            return begun
        report = ErrorReporter(wanted.consumer, self._inbox, self._clock)
        heard = system.monotonic()
        while not self.stopping.is_set():
            messages = take(client, _AGAIN_S if wanted.too_soon else PACE_S, report)
            if messages:
                heard = system.monotonic()
                facts, outcome = wanted.fold(messages)
                if facts:
                    inbox.tell(facts)
                if outcome is not None:
                    return outcome
            if wanted.asks_again():
                client.assign(wanted.place())
            elif system.monotonic() - heard > self._silence_s:
                return wanted.broken_off(f"silence for {self._silence_s:g} s", silent=True)
        return wanted.broken_off("stopped")

    def _begin(self, client: Any, wanted: _Range, inbox: ClientInbox) -> _Outcome | None:
        """Assign where the range begins, or right below a listed start above that; how it ended without an answer.

        A range beyond the listed end is fetched, too: a broker may list an end that is too low.
        """
        bounds = self._bounds(client, wanted)
        if isinstance(bounds, _Outcome):
            return bounds
        log_start, wanted.listed_end = bounds
        inbox.tell(wanted.begin(log_start))
        client.assign(wanted.place())
        return None

    def _bounds(self, client: Any, wanted: _Range) -> tuple[int, int] | _Outcome:
        """Return the log's start and end, asked for in short turns; without an answer, the outcome of the re-read."""
        place = TopicPartition(wanted.request.topic, wanted.request.partition)
        deadline = system.monotonic() + self._silence_s
        error = f"silence for {self._silence_s:g} s"
        ask_s = _FIRST_ASK_S
        while not self.stopping.is_set() and (left := deadline - system.monotonic()) > 0:
            try:
                start, end = client.get_watermark_offsets(place, timeout=min(left, ask_s))
            except KafkaException as raised:
                said: KafkaError = raised.args[0]
                error = text_of(said)
                if said.code() in _HOPELESS:
                    return wanted.broken_off(error)
                ask_s = min(2 * ask_s, ASK_S)
                self.stopping.wait(min(_AGAIN_S, left))
            else:
                return start, end
        return wanted.broken_off("stopped") if self.stopping.is_set() else wanted.broken_off(error, silent=True)


class _Range:
    """One request while it is read.

    Every record from the start to ``position`` was delivered, or left out by the broker (markers, aborted records,
    compaction).
    """

    def __init__(
        self, request: RereadRequest, consumer: str, isolation: Isolation, tag: bytes, clock: Clock, leader: _Leader
    ) -> None:
        self.request = request
        self.consumer = consumer
        self.position = request.start
        self.listed_end = 0
        self._isolation: Isolation = isolation
        self._tag = tag
        self._clock = clock
        self._leader = leader
        self.too_soon = False
        """The end of the log came before the leader was known who told it."""
        self._floor: int | None = None
        """A start above the position that was listed: it counts once a fetch right below it is refused."""
        self._contradicted = False
        """The log is listed to begin where it does not: if the range is refused, silence ends it."""
        self._moved = False
        self._note: str | None = None

    def place(self) -> list[TopicPartition]:
        """Return what is to be assigned to go on."""
        at = self.position if self._floor is None else self._floor - 1
        return [TopicPartition(self.request.topic, self.request.partition, at)]

    def asks_again(self) -> bool:
        """Whether it is to be assigned again: above a start that counts, or as the leader is known now."""
        again = self._moved or (self.too_soon and self._leader.named)
        self.too_soon &= not again
        self._moved = False
        return again

    def begin(self, log_start: int) -> Facts:
        """Begin where the log does, if it is listed to begin later than asked for and a fetch shows that it does."""
        if log_start > self.position:
            self._floor = log_start
            return []
        return [self._positioned()]

    def _positioned(self) -> Positioned:
        reason = self._note or self.request.reason
        place = (self.request.topic, self.request.partition, self.position)
        return Positioned(self._clock.now_ns(), self.consumer, self._isolation, *place, reason)

    def _below(self, floor: int, message: Any, told: list[Fact]) -> _Outcome | None:
        """Take the answer to a fetch right below the listed start: if it is refused, the log begins there."""
        error = message.error()
        if error is not None and error.code() in OUT_OF_RANGE:
            self.position, self._note = floor, f"the log starts at {floor}"
        elif error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  # public in librdkafka
            return self._event(message)
        else:
            self._contradicted = True
        self._floor, self._moved = None, True
        told.append(self._positioned())
        return self.reached_end() if self.position >= self.request.end else None

    def fold(self, messages: Sequence[Any]) -> tuple[Facts, _Outcome | None]:
        """Return what the messages tell, and the outcome if one of them ends the range."""
        records: list[Any] = []
        told: list[Fact] = []
        outcome = None
        for message in messages:
            if self._moved:
                break  # it is not of the place that is read next
            if self._floor is not None:
                outcome = self._below(self._floor, message, told)
            elif message.error() is not None:
                outcome = self._event(message)
            elif message.offset() >= self.request.end:
                outcome = self.reached_end()
            else:
                records.append(message)
                self.position = message.offset() + 1
                outcome = self.reached_end() if self.position >= self.request.end else None
            if outcome is not None:
                break
        at_ns = [self._clock.now_ns()] * len(records)
        return [*told, *facts_of(records, self.consumer, self._isolation, self._tag, at_ns)], outcome

    def _event(self, message: Any) -> _Outcome | None:
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # public in librdkafka
            if message.offset() >= self.request.end:
                return self.reached_end()
            self.position = message.offset()
            return self._log_ends(message.offset())
        if error.code() in OUT_OF_RANGE and self.position > self.listed_end:
            return self._log_ends(self.listed_end)
        if error.code() in _HOPELESS or (error.code() in OUT_OF_RANGE and not self._contradicted):
            return self.broken_off(text_of(error))
        return None  # passing; if it stays, silence ends the range

    def _log_ends(self, at: int) -> _Outcome | None:
        """The log ended before the range did: that counts as an answer in the leader epoch that was known before it."""
        if not self._leader.named:
            self.too_soon = True
            return None
        return self.broken_off(f"end of log at {at}")

    def reached_end(self) -> _Outcome:
        """Return the outcome of a range that was read to its end."""
        return _Outcome(max(self.request.end, self.position), complete=True, error=self._note)

    def broken_off(self, why: str, *, silent: bool = False) -> _Outcome:
        """Return the outcome of a range that was not."""
        return _Outcome(self.position, complete=False, error=why, silent=silent)


_HOPELESS = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001  # public in librdkafka
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001  # public in librdkafka
    }
)

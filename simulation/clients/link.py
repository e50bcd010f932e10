"""What every simulated client has: a life, a queue of events, and what it knows of the cluster.

A client of librdkafka has threads of its own. Here their work is done where its cause comes: in a call of the client,
in an answer of the cluster, in a timer. None of it happens while the process is frozen; it happens then when the
process goes on. And none of it once the process is dead or the client is closed.
"""

import logging
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import BrokerMetadata, ClusterMetadata, PartitionMetadata, TopicMetadata

from simulation.clients.values import failure
from simulation.kafka.contract import ClusterApi, Metadata, PartitionMeta, TopicMeta
from simulation.machine.schedule import Killed, Process, Schedule, Task, Timer

_ALIASES = {
    "acks": "request.required.acks",
    "delivery.timeout.ms": "message.timeout.ms",
    "linger.ms": "queue.buffering.max.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "retries": "message.send.max.retries",
}
_DEFAULTS: Mapping[str, object] = {
    "auto.offset.reset": "latest",
    "batch.size": 1_000_000,
    "enable.idempotence": False,
    "enable.partition.eof": False,
    "fetch.error.backoff.ms": 500,
    "fetch.wait.max.ms": 500,
    "heartbeat.interval.ms": 3000,
    "isolation.level": "read_committed",
    "max.in.flight.requests.per.connection": 1_000_000,
    "max.poll.interval.ms": 300000,
    "message.send.max.retries": 2147483647,
    "message.timeout.ms": 300000,
    "queue.buffering.max.messages": 100000,
    "queue.buffering.max.ms": 5,
    "reconnect.backoff.max.ms": 10000,
    "reconnect.backoff.ms": 100,
    "request.required.acks": -1,
    "request.timeout.ms": 30000,
    "retry.backoff.max.ms": 1000,
    "retry.backoff.ms": 100,
    "session.timeout.ms": 45000,
    "socket.timeout.ms": 60000,
    "topic.metadata.refresh.interval.ms": 300000,
    "transaction.timeout.ms": 60000,
}
_SECRET = ("password", "secret", "key")
_LEAST_S = 0.001
"""librdkafka's timeouts are whole milliseconds; and a shorter one might not move virtual time at all."""
PROPAGATION_S = 30.0
"""How long a topic may be missing from the metadata after it was first used (topic.metadata.propagation.max.ms)."""
ASK_AGAIN_S = 0.1
"""How soon a blocking call looks again whether a broker answers."""


class Link:
    """One client's way to the cluster. ``name`` is librdkafka's."""

    def __init__(
        self,
        schedule: Schedule,
        cluster: ClusterApi,
        process: Process,
        site: str,
        name: str,
        config: Mapping[str, Any],
        logger: logging.Logger | None,
        seed: int = 0,
    ) -> None:
        self.schedule = schedule
        self.cluster = cluster.leads_to or cluster
        """The one that it is in."""
        self._address = cluster
        self.process = process
        self.site = site
        self.config = {**_DEFAULTS, **{_ALIASES.get(key, key): value for key, value in config.items()}}
        self.name = f"{self.config.get('client.id', 'rdkafka')}#{name}"
        if "transactional.id" in self.config:
            self.config["enable.idempotence"] = True
        self.closed = False
        self.events: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        """Calls to make in the task that polls."""
        self.brokers: list[int] = list(cluster.brokers())
        self.controller = -1
        self.topics: dict[str, TopicMeta] = {}
        """What the last metadata said."""
        self._cluster_id: str | None = None
        self._held: dict[tuple[str, int], PartitionMeta] = {}
        self._used_at: dict[str, float] = {}
        self.on_leader: Callable[[str, int], None] | None = None
        """Called when metadata tell a new leader epoch of a partition that is used."""
        self.on_moved: Callable[[], None] | None = None
        """Called when the client is in another cluster from now on: its connections to the former one are closed."""
        self.on_missing: Callable[[str, int], None] | None = None
        """Called when a partition that is used is gone; only a consumer keeps it then."""
        self._logger = logger
        self._waiters: list[Task] = []
        self._dice = random.Random(seed)
        self._asked_at = float("-inf")
        self._down: set[int] = set()
        self._log_properties(config)

    # ---- life

    def check(self) -> None:
        """Raise Killed if the process is dead: nothing in it runs on."""
        if self.process.dead:
            raise Killed

    def close(self) -> None:
        """End: answers and timers find nothing any more."""
        self.closed = True
        self.events.clear()

    def guarded(self, what: Callable[..., object]) -> Callable[..., None]:
        """Return what calls ``what`` as long as there is a client, and not while its process is frozen."""

        def call(*args: object) -> None:
            if self.closed or self.process.dead:
                return
            if self.process.frozen:
                self.schedule.spawn(self.process, lambda: call(*args), self.name)
            else:
                what(*args)

        return call

    def after(self, delay: float, what: Callable[[], object]) -> Timer:
        """Call ``what`` in ``delay`` seconds."""
        return self.schedule.after(delay, self.guarded(what))

    def seconds(self, name: str) -> float:
        """Return a property in ms as seconds."""
        return int(self.config[name]) / 1000

    def flag(self, name: str) -> bool:
        """Return a property that is true or false."""
        return str(self.config[name]).lower() in {"true", "1"}

    # ---- events

    def emit(self, call: Callable[..., object], *args: Any) -> None:
        """Have the next poll call ``call``."""
        self.events.append((call, args))
        if self._waiters:
            self.stir()

    def is_awaited(self) -> bool:
        """Return whether a task waits in a call of this client."""
        return bool(self._waiters)

    def stir(self) -> None:
        """Wake the tasks that wait in a call of this client."""
        waiters, self._waiters = self._waiters, []
        for task in waiters:
            self.schedule.wake(task)

    def wait(self, until: float | None) -> bool:
        """Park the current task until something stirs, at most until the virtual second ``until``. Returns whether."""
        task = self.schedule.running()
        self._waiters.append(task)
        woken = self.schedule.park(until)
        if task in self._waiters:
            self._waiters.remove(task)
        return woken

    def deadline(self, timeout: float | None) -> float | None:
        """Return when a call with this timeout in s gives up, at least a millisecond later; None or negative: never."""
        return None if timeout is None or timeout < 0 else self.schedule.deadline(max(timeout, _LEAST_S))

    def dispatch(self) -> int:
        """Make the calls that are due; returns how many. What one raises, this raises, and the rest stays."""
        events = self.events
        count = 0
        while events:
            call, args = events.popleft()
            call(*args)
            count += 1
        return count

    def error(self, code: int, text: str) -> None:
        """Tell the ``error_cb``, if there is one."""
        callback = self.config.get("error_cb")
        if callback is not None:
            self.emit(callback, KafkaError(code, text))

    def log(self, level: int, facility: str, text: str) -> None:
        """Tell the logger, which is called in poll() as well."""
        if self._logger is not None and self._logger.isEnabledFor(level):
            self.emit(self._logger.log, level, "%s [%s] %s", facility, self.name, text)

    def debug(self, context: str, facility: str, text: str) -> None:
        """Log a line of a debug context, if it is asked for."""
        if context in str(self.config.get("debug", "")).split(","):
            self.log(logging.DEBUG, facility, text)

    def _log_properties(self, given: Mapping[str, Any]) -> None:
        if "debug" not in given:
            return
        names = {_ALIASES.get(key, key) for key in given} | {"enable.idempotence", "request.required.acks"}
        for name in sorted(names):
            value = self.config[name]
            if callable(value) or any(word in name for word in _SECRET):
                continue
            if name == "request.required.acks":
                value = -1 if self.flag("enable.idempotence") or str(value) in {"all", "-1"} else value
            shown = str(value).lower() if isinstance(value, bool) else value
            self.debug("conf", "CONF", f"[thrd:app]:   {name} = {shown}")

    # ---- the cluster

    def reaches(self, broker: int) -> bool:
        """Return whether a request to a broker is answered now; what changes is told to the ``error_cb``.

        Who connects again may reach another cluster.
        """
        up = broker >= 0 and self.cluster.reaches(self.site, broker)
        if broker >= 0 and (not up or broker in self._down) and (led := self._led()) is not self.cluster:
            self._move(led)
            up = led.reaches(self.site, broker)
        if up:
            self._down.discard(broker)
        elif broker >= 0 and broker not in self._down:
            self._down.add(broker)
            self.error(KafkaError._TRANSPORT, f"sim://{broker}: Connect to broker {broker} failed")
        return up

    def _led(self) -> ClusterApi:
        """Return the cluster that a new connection reaches."""
        return self._address.leads_to or self._address

    def _move(self, led: ClusterApi) -> None:
        """Be in another cluster: a new connection asks it for metadata before anything else."""
        self.cluster = led
        self._down.clear()
        if self.on_moved is not None:
            self.on_moved()
        self.refresh()

    def gone(self, broker: int) -> bool:
        """Return whether the broker has ended, which breaks its connections at once; those of a frozen one stay."""
        nodes: Any = getattr(self.cluster, "nodes", {})
        return broker in nodes and not nodes[broker].up

    def ask_any(self) -> tuple[int, Metadata] | None:
        """Return the metadata of any broker that answers, and which one it is."""
        count = len(self.brokers)
        first = self._dice.randrange(count)
        for turn in range(count):
            broker = self.brokers[(first + turn) % count]
            if self.reaches(broker):
                return broker, self.cluster.metadata(broker)
        self.error(KafkaError._ALL_BROKERS_DOWN, f"{count}/{count} brokers are down")
        return None

    def refresh(self, least_s: float = 0.0) -> bool:
        """Ask for metadata, unless that was done less than ``least_s`` seconds ago. Returns whether there were some."""
        now = self.schedule.now
        if now - self._asked_at < least_s:
            return False
        self._asked_at = now
        found = self.ask_any()
        if found is None:
            return False
        self.learn(found[1])
        return True

    def learn(self, told: Metadata) -> None:
        """Take over metadata."""
        self.controller, self._cluster_id = told.controller, told.cluster_id
        self.brokers += [broker for broker, _ in told.brokers if broker not in self.brokers]
        self.topics = told.topics
        for place, held in list(self._held.items()):
            found = self.told(*place)
            if found is None:
                self._miss(place, held)
            elif found.epoch >= held.epoch and found is not held:
                self._held[place] = found
                if found.epoch > held.epoch and self.on_leader is not None:
                    self.on_leader(*place)

    def _miss(self, place: tuple[str, int], held: PartitionMeta) -> None:
        """A partition is not in the metadata, which may pass soon after its topic was made."""
        if self.schedule.now - self._used_at[place[0]] <= PROPAGATION_S:
            return
        if self.on_missing is None:
            del self._held[place]
        elif held.leader >= 0:
            self._held[place] = replace(held, leader=-1)
            self.on_missing(*place)

    def told(self, topic: str, partition: int) -> PartitionMeta | None:
        """Return what the last metadata say of a partition."""
        known = self.topics.get(topic)
        if known is None or known.error or partition >= len(known.partitions):
            return None
        found = known.partitions[partition]
        return found if found.id == partition else next((one for one in known.partitions if one.id == partition), None)

    def place(self, topic: str, partition: int) -> PartitionMeta | None:
        """Return what counts of a partition that is written or read: metadata of an older epoch do not.

        So a client of a topic that was deleted and created again stands still until the new one's epoch is as high
        (librdkafka 2.16, with or without topic ids).
        """
        held = self._held.get((topic, partition))
        if held is None:
            self._used_at.setdefault(topic, self.schedule.now)
            held = self.told(topic, partition)
            if held is not None:
                self._held[topic, partition] = held
        return held

    def cluster_id(self, timeout: float) -> str:
        """Return the cluster's id, as brokers told it with metadata last; nobody waits for them (``timeout`` is 0).

        Raises:
            KafkaException: they have told none yet.
        """
        if timeout != 0:
            raise NotImplementedError("the canary never waits for the cluster's id")
        if self._cluster_id is None:
            raise KafkaException(failure(KafkaError._TIMED_OUT, "Failed to retrieve cluster id: Local: Timed out."))
        return self._cluster_id

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """Return metadata as any broker tells them.

        Raises:
            KafkaException: no broker answers within ``timeout`` seconds.
        """
        self.check()
        deadline = self.deadline(timeout)
        while (found := self.ask_any()) is None:
            again = self.schedule.now + ASK_AGAIN_S
            if deadline is not None and again > deadline:
                self.schedule.park(deadline)
                why = f"Failed to get metadata: {KafkaError(KafkaError._TRANSPORT).str()}"
                raise KafkaException(failure(KafkaError._TRANSPORT, why))
            self.schedule.park(again)
        broker, told = found
        self.learn(told)
        names = list(told.topics) if topic is None else [topic]
        return _cluster_metadata(broker, told, names)


def _cluster_metadata(broker: int, told: Metadata, names: list[str]) -> ClusterMetadata:
    found = ClusterMetadata()
    found.cluster_id, found.controller_id = told.cluster_id, told.controller
    found.orig_broker_id, found.orig_broker_name = broker, address(broker)
    for number, _ in told.brokers:
        one = BrokerMetadata()
        one.id, one.host, one.port = number, *endpoint(number)
        found.brokers[number] = one
    for name in names:
        topic = TopicMetadata()
        topic.topic = name
        known = told.topics.get(name)
        code = KafkaError.UNKNOWN_TOPIC_OR_PART if known is None else known.error
        topic.error = KafkaError(code) if code else None
        for part in known.partitions if known is not None else ():
            partition = PartitionMetadata()
            partition.id, partition.leader = part.id, part.leader
            partition.replicas, partition.isrs = list(part.replicas), list(part.isr)
            if part.leader < 0:
                partition.error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
            topic.partitions[part.id] = partition
        found.topics[name] = topic
    return found


def endpoint(broker: int) -> tuple[str, int]:
    """Return host and port that a broker goes by."""
    return f"broker-{broker}", 9092


def address(broker: int) -> str:
    """Return a broker's host and port as librdkafka names it."""
    host, port = endpoint(broker)
    return f"{host}:{port}/{broker}"

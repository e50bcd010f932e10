"""Clients that log little and back off.

librdkafka logs a line for each failed reconnect (20 a second and broker, FIELD-NOTES). Here a logger lets one line of a
kind through each half minute and then adds how many it kept back. The same holds for the errors that ``error_cb``
reports, which become ClientError facts: evidence, never a judgement.
"""

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from confluent_kafka import KafkaError

from canary.facts import ClientError
from canary.threads import system
from canary.threads.ports import Clock, Inbox

log = structlog.get_logger(__name__)

QUIET_S = 30.0
"""One line, and one ClientError fact, of a kind per client in so many seconds."""

CALM: Mapping[str, object] = {
    "reconnect.backoff.ms": 250,
    "reconnect.backoff.max.ms": 2000,  # a broker that is back is found again soon
    "retry.backoff.ms": 250,
    "retry.backoff.max.ms": 1000,
    "socket.connection.setup.timeout.ms": 5000,  # a frozen broker accepts (the kernel does) and never answers
    "socket.timeout.ms": 10000,
    "socket.keepalive.enable": True,
    "topic.metadata.refresh.interval.ms": 10000,  # added partitions are known soon
    "allow.auto.create.topics": False,  # a deleted topic is created again on purpose only
    "log.connection.close": False,
}
"""What every client gets unless the operator's own properties say otherwise."""


def whole_ms(seconds: float) -> float:
    """Return ``seconds`` rounded up to whole ms: librdkafka rounds a wait down, and one of 0 ms returns at once.

    A loop that waits in poll() until a time in the future would spin through the last ms before it.
    """
    return math.ceil(seconds * 1000) / 1000


class Gate:
    """Lets one of each kind through in ``every_s`` seconds and counts the rest. Thread-safe."""

    def __init__(self, every_s: float = QUIET_S, kinds: int = 256) -> None:
        self._every_s = every_s
        self._kinds = kinds
        self._seen: dict[object, tuple[float, int]] = {}
        self._lock = system.lock()

    def admit(self, kind: object) -> int | None:
        """Return how many of this kind were kept back since the last that passed, or None when this one is too."""
        now = system.monotonic()
        with self._lock:
            last, kept_back = self._seen.get(kind, (None, 0))
            if last is not None and now - last < self._every_s:
                self._seen[kind] = (last, kept_back + 1)
                return None
            if len(self._seen) >= self._kinds:
                self._seen.clear()
            self._seen[kind] = (now, 0)
            return kept_back


class _Handler(logging.Handler):
    def __init__(self, client: str) -> None:
        super().__init__()
        self._client = client
        self._gate = Gate()

    def emit(self, record: logging.LogRecord) -> None:
        facility = str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
        kept_back = self._gate.admit((record.levelno, facility))
        if kept_back is not None:
            level = min(record.levelno, logging.WARNING)  # whether it is an error, the tracker decides
            log.log(level, "kafka_client", client=self._client, said=record.getMessage(), kept_back=kept_back)


def quiet_logger(client: str) -> logging.Logger:
    """Return a logger to hand to one client of confluent-kafka (``logger=``); it writes to structlog, rate-limited.

    librdkafka calls it only from within poll(): every client must be polled now and then, the admin client too.
    """
    logger = logging.Logger(client, logging.INFO)  # noqa: LOG001  # not in the tree: it goes when its client goes
    logger.addHandler(_Handler(client))
    return logger


def with_debug(
    config: Mapping[str, Any], logger: logging.Logger, context: str, listener: Callable[[logging.LogRecord], bool]
) -> dict[str, Any]:
    """Return the properties that make a client log the debug lines of one ``context`` of librdkafka, too.

    ``listener`` becomes the last filter of the client's ``logger``.
    """
    logger.setLevel(logging.DEBUG)
    logger.addFilter(listener)
    wanted = str(config.get("debug", ""))
    return {**config, "debug": f"{wanted},{context}" if wanted else context}


class ErrorReporter:
    """The ``error_cb`` of one client: ClientError facts, one of each code in half a minute.

    ``on_fatal`` is called (in the thread that polls) with the text of a fatal error: the client is of no use any more.
    """

    def __init__(self, client: str, inbox: Inbox, clock: Clock, on_fatal: Callable[[str], None] | None = None) -> None:
        self._client = client
        self._inbox = inbox
        self._clock = clock
        self._on_fatal = on_fatal
        self._gate = Gate()

    def __call__(self, error: KafkaError) -> None:
        """Report the error."""
        fatal = bool(error.fatal())
        kept_back = self._gate.admit((error.code(), fatal))
        if kept_back is not None:
            text = error.str() + (f" (and {kept_back} more of {error.name()})" if kept_back else "")
            fact = ClientError(self._clock.now_ns(), self._client, error.name(), text, fatal=fatal)
            self._inbox.put([fact])
        if fatal and self._on_fatal is not None:
            self._on_fatal(f"{error.name()}: {error.str()}")


def calm(config: Mapping[str, object], client: str, *, forced: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Return librdkafka properties: CALM, over it the operator's ``config``, over it those ``forced``.

    ``client`` becomes ``client.id`` unless ``config`` has one; ``forced`` are properties that decide what facts mean.
    """
    return {**CALM, "client.id": f"durability-canary-{client}", **config, **(forced or {})}

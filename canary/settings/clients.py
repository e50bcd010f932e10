"""The safe configuration of each Kafka client, made from a cluster's settings. Every one holds secrets.

Defaults that make an acknowledgement a promise (jepsen-redpanda found librdkafka's own to be unsafe): acks=all,
idempotence, retries until the delivery timeout, explicit isolation levels, no auto-commit, no auto-created topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from canary.facts import Isolation
    from canary.settings.clusters import ClusterSettings

_BACKOFFS: Final = ("reconnect.backoff", "retry.backoff")
_LONGEST_MS: Final = 5_000
#: For producers: retried without end until the delivery timeout, which the user may set.
_DELIVERY: Final[dict[str, Any]] = {
    "linger.ms": 5,
    "message.timeout.ms": 120_000,
    "reconnect.backoff.max.ms": _LONGEST_MS,
    "retries": 2_147_483_647,
    "retry.backoff.max.ms": _LONGEST_MS,
}
READING: Final[dict[str, Any]] = {"fetch.max.bytes": 4 * 2**20, "queued.max.messages.kbytes": 16_384}
"""For consumers: at most 16 MB fetched ahead, not 64, and 4 MB in an answer, not 50: the client takes an answer apart
whole, and each of its small records costs it several times as much memory."""
ASSIGNED: Final[dict[str, Any]] = {
    "auto.offset.reset": "error",
    "check.crcs": True,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
}
"""For consumers whose positions are assigned: what they are told is complete, and they commit nothing."""
#: For every client. Backoffs so that a cluster that does not answer costs little CPU (FIELD-NOTES, "odds and ends"): a
#: producer, which burns most, waits longest; what reads and asks finds a broker that is back, and the new leader, soon.
_ANY_CLIENT: Final[dict[str, Any]] = {
    "allow.auto.create.topics": False,
    "log.connection.close": False,
    "reconnect.backoff.ms": 250,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 250,
    "retry.backoff.max.ms": 500,
    "socket.connection.setup.timeout.ms": 10_000,
    "socket.keepalive.enable": True,
    "topic.metadata.refresh.interval.ms": 30_000,
}


def admin_config(cluster: ClusterSettings) -> dict[str, Any]:
    """Return the configuration of an admin client: safe defaults, then what the user set."""
    return _config(cluster, {})


def producer_config(cluster: ClusterSettings) -> dict[str, Any]:
    """Return the configuration of an idempotent producer: acks=all, retried until ``message.timeout.ms``."""
    return _config(cluster, _DELIVERY) | {"acks": "all", "enable.idempotence": True}


def transactional_config(cluster: ClusterSettings, transactional_id: str) -> dict[str, Any]:
    """Return the configuration of a transactional producer; its id begins with ``identifier_prefix``.

    A message times out no later than its transaction: librdkafka insists.
    """
    config = {"transaction.timeout.ms": 60_000} | producer_config(cluster)
    longest = config["transaction.timeout.ms"]
    return config | {
        "message.timeout.ms": min(config["message.timeout.ms"], longest, key=int),
        "transactional.id": f"{cluster.identifier_prefix}-{transactional_id}",
    }


def consumer_config(cluster: ClusterSettings, isolation: Isolation) -> dict[str, Any]:
    """Return the configuration of an assigned (never subscribed) consumer at one isolation level. Holds secrets.

    It gets an event at the end of each partition, commits nothing, and fails at an offset that is not in the log.
    """
    group = f"{cluster.identifier_prefix}-assigned"  # librdkafka wants one; nothing ever joins it
    return READING | admin_config(cluster) | ASSIGNED | {"group.id": group, "isolation.level": isolation}


def _config(cluster: ClusterSettings, safe: dict[str, Any]) -> dict[str, Any]:
    """Return safe defaults, those of any client first, then what the user set.

    Where that is the shortest of two backoffs, the longest is well above it: librdkafka insists.
    """
    given = cluster.client_config()
    longest = {f"{which}.max.ms": _LONGEST_MS for which in _BACKOFFS if f"{which}.ms" in given}
    return _ANY_CLIENT | {"client.id": cluster.identifier_prefix} | safe | longest | given

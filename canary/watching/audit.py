"""Collects what the audit looks at, from the cluster itself, and audits now and then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from canary.client.answers import text_of
from canary.client.quiet import calm, quiet_logger
from canary.client.worker import Worker
from canary.watching.audited import Audit, Audited, AuditedBroker, AuditedTopic, Note, Origin, Role, Setting
from canary.watching.findings import audit
from canary.watching.redpanda import NotAvailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from canary.client.ports import Clock
    from canary.watching.redpanda import RedpandaAdmin
    from canary.watching.selection import Selection

log = structlog.get_logger(__name__)

_TIMEOUT_S = 5.0
_MOST_TOPICS = 1000
_RETRY_S = 10.0
_INTERNAL = frozenset({"_schemas", "connect-configs", "connect-offsets", "connect-status"})


class UnreachableError(Exception):
    """The cluster does not answer; nothing was concluded."""


def collect(
    admin: Any,
    probes: Iterable[str],
    named: Selection,
    *,
    reconcile_every_s: float | None = None,
    redpanda: RedpandaAdmin | None = None,
) -> Audited:
    """Ask a cluster for what the audit looks at.

    Args:
        admin: an AdminClient.
        probes: names of the probe topics.
        named: the production topics that are audited.
        reconcile_every_s: time between two reconciliations, None for none.
        redpanda: its admin API, where there is one.

    Raises:
        UnreachableError: the cluster does not answer.
    """
    notes: list[Note] = []
    try:
        cluster = admin.describe_cluster(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S + 1)
        metadata = admin.list_topics(timeout=_TIMEOUT_S)
    except (KafkaException, TimeoutError) as error:
        raise UnreachableError(f"the cluster does not answer: {error}") from error
    roles = {name: role for name in sorted(metadata.topics) if (role := _role(name, set(probes), named))}
    if len(roles) > _MOST_TOPICS:
        notes.append(Note("topics", f"{len(roles)} topics were named; the first {_MOST_TOPICS} were looked at."))
        roles = dict(list(roles.items())[:_MOST_TOPICS])
    asked = {node.id: _configs(admin, ResourceType.BROKER, str(node.id)) for node in cluster.nodes}
    topics = {name: _configs(admin, ResourceType.TOPIC, name) for name in roles}
    deadline = time.monotonic() + _TIMEOUT_S + 1
    brokers = [
        AuditedBroker(node.id, node.rack or None, _settings(asked[node.id], f"broker {node.id}", deadline, notes))
        for node in sorted(cluster.nodes, key=lambda node: int(node.id))
    ]
    found = [
        AuditedTopic(
            name,
            role,
            [part.replicas for _, part in sorted(metadata.topics[name].partitions.items())],
            _settings(topics[name], f"topic {name}", deadline, notes),
        )
        for name, role in roles.items()
    ]
    settings = None
    if redpanda is not None:
        brokers, settings = _with_redpanda(brokers, redpanda, notes)
    return Audited(brokers, found, reconcile_every_s, notes, settings)


def _role(name: str, probes: set[str], named: Selection) -> Role | None:
    if name in probes:
        return "probe"
    if name.startswith("__") or name in _INTERNAL:
        return "internal"
    return "production" if named.topic(name) else None


def _configs(admin: Any, kind: ResourceType, name: str) -> Future[Any]:
    resource = ConfigResource(kind, name)
    future: Future[Any] = admin.describe_configs([resource], request_timeout=_TIMEOUT_S)[resource]
    return future


def _settings(future: Future[Any], where: str, deadline: float, notes: list[Note]) -> Mapping[str, Setting]:
    try:
        entries = future.result(max(deadline - time.monotonic(), 0.1))
    except KafkaException as error:
        said: KafkaError = error.args[0]
        need = " Grant DESCRIBE_CONFIGS to the canary's principal." if "AUTHORIZATION" in said.name() else ""
        notes.append(Note(where, f"Its settings were not told: {text_of(said)}.{need}"))
        return {}
    except TimeoutError:
        notes.append(Note(where, "Its settings were not told in time."))
        return {}
    return {
        name: Setting(entry.value, _origin(name, entry))
        for name, entry in entries.items()
        if entry.value is not None and not entry.is_sensitive
    }


def _origin(name: str, entry: Any) -> Origin:
    source = entry.source.value if isinstance(entry.source, ConfigSource) else entry.source
    if source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value:
        return "topic"
    if source in {ConfigSource.DEFAULT_CONFIG.value, ConfigSource.UNKNOWN_CONFIG.value}:
        return "default"
    by_kafka = (
        name == "min.insync.replicas"
        and entry.value == "1"
        and source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value
    )
    return "default" if by_kafka else "broker"  # Kafka writes this one itself where ELR is on (KIP-966)


def _with_redpanda(
    brokers: list[AuditedBroker], redpanda: RedpandaAdmin, notes: list[Note]
) -> tuple[list[AuditedBroker], Mapping[str, object] | None]:
    """Add what only Redpanda's admin API tells; what it does not tell is noted."""
    settings: Mapping[str, object] | None = None
    try:
        members = {member.id: member for member in redpanda.members()}
        brokers = [
            AuditedBroker(one.id, one.rack or members[one.id].rack, one.settings, members[one.id].version)
            if one.id in members
            else one
            for one in brokers
        ]
        notes += [
            Note(f"broker {member.id}", "It is being decommissioned.")
            for member in members.values()
            if member.membership != "active"
        ]
    except NotAvailableError as error:
        notes.append(Note("Redpanda", f"Brokers are not available here: {error}."))
    try:
        settings = redpanda.settings()
    except NotAvailableError as error:
        notes.append(Note("Redpanda", f"The cluster's configuration is not available here: {error}."))
    try:
        health = redpanda.health()
        if not health.healthy:
            notes.append(
                Note(
                    "Redpanda",
                    f"It is not healthy: nodes down {list(health.down)}, {len(health.leaderless)} partitions without "
                    f"a leader, {len(health.under_replicated)} under-replicated.",
                )
            )
    except NotAvailableError as error:
        notes.append(Note("Redpanda", f"Health is not available here: {error}."))
    return brokers, settings


class Auditor(Worker):
    """The thread that audits.

    Args:
        config: librdkafka properties.
        what: collects, given an AdminClient (see :func:`collect`).
        clock: what time it is.
        interval_s: time between two audits.
    """

    def __init__(
        self, config: Mapping[str, object], what: Callable[[Any], Audited], clock: Clock, interval_s: float
    ) -> None:
        super().__init__("auditor")
        self._config = dict(config)
        self._what = what
        self._clock = clock
        self._interval_s = interval_s
        self._latest: tuple[int, Audit] | None = None

    @property
    def latest(self) -> tuple[int, Audit] | None:
        """When (ns) the last audit was, and its outcome; None before the first one."""
        return self._latest

    def run(self) -> None:
        """Audit until stopped."""
        admin = AdminClient(calm(self._config, "auditor"), logger=quiet_logger("auditor"))
        going = True
        while going:
            try:
                done = audit(self._what(admin))
            except (UnreachableError, KafkaException) as error:
                log.info("audit_put_off", reason=str(error))
                going = self.wait(min(_RETRY_S, self._interval_s))
                continue
            before = self._latest
            self._latest = (self._clock.now_ns(), done)
            if before is None or before[1].findings != done.findings:
                log.info(
                    "audited", findings=len(done.findings), worst=done.findings[0].check if done.findings else None
                )
            going = self.wait(self._interval_s)

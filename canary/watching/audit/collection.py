"""Collects what the audit looks at, from the cluster itself, and audits now and then."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from canary.anomalies.online.liveness import SILENCES
from canary.client.answers import text_of
from canary.client.opening import opened_in_time
from canary.client.quiet import calm, quiet_logger
from canary.client.worker import Worker
from canary.watching import redpanda_findings
from canary.watching.audited import Audit, Audited, AuditedBroker, AuditedTopic, Note, Origin, Role, Setting
from canary.watching.beyond import KafkaAlone, NotAvailableError
from canary.watching.findings import audit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet
    from concurrent.futures import Future

    from canary.client.ports import Clock
    from canary.watching.beyond import Beyond
    from canary.watching.selection import Selection

T = TypeVar("T")
log = structlog.get_logger(__name__)

_TIMEOUT_S = 5.0
_MOST_TOPICS = 1000
_RETRY_S = 10.0
_INTERNAL = frozenset({"_schemas", "connect-configs", "connect-offsets", "connect-status"})


class UnreachableError(Exception):
    """The cluster does not answer, or not every question; nothing was concluded."""


def collect(
    admin: Any,
    probes: AbstractSet[str],
    named: Selection,
    *,
    reconcile_every_s: float | None = None,
    beyond: Beyond | None = None,
) -> Audited:
    """Ask a cluster for what the audit looks at.

    What nobody may tell us is a note. What nobody answered may be unsafe, so there is no audit without it.

    Args:
        admin: an AdminClient.
        probes: names of the probe topics.
        named: the production topics that are audited.
        reconcile_every_s: time between two reconciliations, None for none.
        beyond: tells what the Kafka protocol does not; by default nobody does.

    Raises:
        UnreachableError: the cluster does not answer, or a broker or topic does not tell its settings in time.
    """
    notes: list[Note] = []
    try:
        cluster = admin.describe_cluster(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S + 1)
        metadata = admin.list_topics(timeout=_TIMEOUT_S)
    except (KafkaException, TimeoutError) as error:
        raise UnreachableError(f"the cluster does not answer: {error}") from error
    roles = {name: role for name in sorted(metadata.topics) if (role := _role(name, probes, named))}
    if len(roles) > _MOST_TOPICS:
        notes.append(Note("topics", f"{len(roles)} topics were named; the first {_MOST_TOPICS} were looked at."))
        roles = dict(list(roles.items())[:_MOST_TOPICS])
    notes += [
        Note(f"topic {name}", "It does not exist, and nothing was looked at.")
        for name in sorted({*probes, *named.names} - set(metadata.topics))
    ]
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
    return _with_beyond(Audited(brokers, found, reconcile_every_s, notes), beyond or KafkaAlone())


def _role(name: str, probes: AbstractSet[str], named: Selection) -> Role | None:
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
        if said.name() in SILENCES:
            raise UnreachableError(f"the settings of {where} were not told: {text_of(said)}") from error
        need = " Grant DESCRIBE_CONFIGS to the canary's principal." if "AUTHORIZATION" in said.name() else ""
        notes.append(Note(where, f"Its settings were not told: {text_of(said)}.{need}"))
        return {}
    except TimeoutError as error:
        raise UnreachableError(f"the settings of {where} were not told in time") from error
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


def _with_beyond(what: Audited, beyond: Beyond) -> Audited:
    """Add what only an admin API beside the Kafka protocol tells; what it does not tell is noted."""
    notes: list[Note] = []
    missing: dict[str, list[str]] = {}

    def told(name: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except NotAvailableError as error:
            missing.setdefault(str(error).partition(": ")[2] or str(error), []).append(name)
            return None

    members = told("broker versions and membership", beyond.members)
    health = told("health", beyond.health)
    settings = told("the cluster's own configuration", beyond.settings)
    for reason, names in missing.items():
        notes.append(Note(beyond.name, f"Not available here: {', '.join(names)} ({reason})."))
    brokers = list(what.brokers)
    if members is not None:
        known = {member.id: member for member in members.brokers}
        brokers = [
            dataclasses.replace(one, rack=one.rack or known[one.id].rack, version=known[one.id].version)
            if one.id in known
            else one
            for one in brokers
        ]
        notes += [
            Note(f"broker {member.id}", f"It is being decommissioned{_left(beyond, member.id)}.")
            for member in members.brokers
            if member.membership != "active"
        ]
    if health is not None and not health.healthy:
        notes.append(
            Note(
                beyond.name,
                f"It is not healthy: nodes down {list(health.down)}, {len(health.leaderless)} partitions without "
                f"a leader, {len(health.under_replicated)} under-replicated.",
            )
        )
    coordinators = {}
    for topic in redpanda_findings.COORDINATORS if settings is not None else ():
        with contextlib.suppress(NotAvailableError):  # not made yet: its setting is looked at instead
            coordinators[topic] = min((len(one.replicas) for one in beyond.partitions(*topic.split("/"))), default=0)
    return dataclasses.replace(
        what, brokers=brokers, notes=[*what.notes, *notes], redpanda=settings, coordinators=coordinators
    )


def _left(beyond: Beyond, broker: int) -> str:
    try:
        return f": {beyond.replicas_left(broker)} replicas are left on it"
    except NotAvailableError:
        return ""


class Auditor(Worker):
    """The thread that audits; an audit that cannot be done is tried again soon, and the last one stands meanwhile.

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
        config = calm(self._config, "auditor")
        admin = opened_in_time(
            lambda: AdminClient(config, logger=quiet_logger("auditor")),
            lambda error: log.info("audit_put_off", reason=text_of(error)),
            self.stopping,
        )
        going = admin is not None
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

"""Collects what the audit looks at, from the cluster itself and from its vendor's admin API."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from canary.anomalies.online.topology.liveness import SILENCES
from canary.kafka.membership import RACK
from canary.kafka.responses import text_of
from canary.metrics.findings import Note
from canary.threads import system
from canary.watching.audit.cluster_config import BrokerConfig, ClusterConfig, Origin, Role, Setting, TopicConfig
from canary.watching.audit.redpanda_checks import COORDINATORS
from canary.watching.selection import Selection
from canary.watching.vendor_api import Members, NotAvailableError, VendorApi

T = TypeVar("T")

_TIMEOUT_S = 5.0
_MOST_TOPICS = 1000
_INTERNAL = frozenset({"_schemas", "connect-configs", "connect-offsets", "connect-status"})


class UnreachableError(Exception):
    """The cluster does not answer, or not every question; nothing was concluded."""


def collect(
    admin: Any,
    probes: AbstractSet[str],
    named: Selection,
    *,
    reconcile_every_s: float | None = None,
    vendor: VendorApi | None = None,
) -> ClusterConfig:
    """Ask a cluster for what the audit looks at.

    A setting that the canary has no right to see becomes a note. A question without an answer ends the audit, for the
    setting may be unsafe. ``probes`` are the probe topics, ``named`` the audited production topics; ``vendor`` is None
    where there is only the Kafka protocol.

    Raises:
        UnreachableError: the cluster does not answer, or a broker or topic does not give its settings in time.
    """
    notes: list[Note] = []
    try:
        metadata = admin.list_topics(timeout=_TIMEOUT_S)
    except KafkaException as error:
        raise UnreachableError(f"the cluster does not answer: {error}") from error
    roles = {name: role for name in sorted(metadata.topics) if (role := _role(name, probes, named))}
    if len(roles) > _MOST_TOPICS:
        notes.append(Note("topics", f"{len(roles)} topics were named; the first {_MOST_TOPICS} were looked at."))
        roles = dict(list(roles.items())[:_MOST_TOPICS])
    notes += [
        Note(f"topic {name}", "It does not exist, and nothing was looked at.")
        for name in sorted({*probes, *named.names} - set(metadata.topics))
    ]
    asked = {number: _describe(admin, ResourceType.BROKER, str(number)) for number in sorted(metadata.brokers)}
    topics = {name: _describe(admin, ResourceType.TOPIC, name) for name in roles}
    deadline = system.monotonic() + _TIMEOUT_S + 1
    told = {number: _settings(future, f"broker {number}", deadline, notes) for number, future in asked.items()}
    racks = {number: settings[RACK].value for number, settings in told.items() if RACK in settings}
    brokers = [BrokerConfig(number, racks.get(number), settings) for number, settings in told.items()]
    found = [
        TopicConfig(
            name,
            role,
            [part.replicas for _, part in sorted(metadata.topics[name].partitions.items())],
            _settings(topics[name], f"topic {name}", deadline, notes),
        )
        for name, role in roles.items()
    ]
    return with_vendor_api(ClusterConfig(brokers, found, reconcile_every_s, notes), vendor or VendorApi())


def _role(name: str, probes: AbstractSet[str], named: Selection) -> Role | None:
    if name in probes:
        return "probe"
    if name.startswith("__") or name in _INTERNAL:
        return "internal"
    return "production" if named.topic(name) else None


def _describe(admin: Any, kind: ResourceType, name: str) -> Future[Any]:
    resource = ConfigResource(kind, name)
    future: Future[Any] = admin.describe_configs([resource], request_timeout=_TIMEOUT_S)[resource]
    return future


def _settings(future: Future[Any], where: str, deadline: float, notes: list[Note]) -> Mapping[str, Setting]:
    try:
        entries = future.result(max(deadline - system.monotonic(), 0.1))
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.name() in SILENCES:
            raise UnreachableError(f"the settings of {where} were not told: {text_of(reason)}") from error
        need = " Grant DESCRIBE_CONFIGS to the canary's principal." if "AUTHORIZATION" in reason.name() else ""
        notes.append(Note(where, f"Its settings were not told: {text_of(reason)}.{need}"))
        return {}
    except TimeoutError as error:
        raise UnreachableError(f"the settings of {where} were not told in time") from error
    return {
        name: Setting(entry.value, origin(name, entry))
        for name, entry in entries.items()
        if entry.value is not None and not entry.is_sensitive
    }


def origin(name: str, entry: Any) -> Origin:
    """Return where a setting was made, as describe_configs() answers it."""
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


def with_vendor_api(config: ClusterConfig, vendor: VendorApi) -> ClusterConfig:
    """Add what only a vendor's admin API answers; what is not available is noted."""
    missing: dict[str, list[str]] = {}

    def answer(name: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except NotAvailableError as error:
            missing.setdefault(str(error).partition(": ")[2] or str(error), []).append(name)
            return None

    members = answer("broker versions and membership", vendor.members)
    health = answer("health", vendor.health)
    settings = answer("the cluster's own configuration", vendor.settings)
    notes = [
        Note(vendor.name, f"Not available here: {', '.join(names)} ({reason}).") for reason, names in missing.items()
    ]
    brokers = list(config.brokers)
    if members is not None:
        known = {member.id: member for member in members.brokers}
        brokers = [
            dataclasses.replace(one, rack=one.rack or known[one.id].rack, version=known[one.id].version)
            if one.id in known
            else one
            for one in brokers
        ]
        notes += _leaving(vendor, members)
    if health is not None and not health.healthy:
        notes.append(
            Note(
                vendor.name,
                f"It is not healthy: nodes down {list(health.down)}, {len(health.leaderless)} partitions without "
                f"a leader, {len(health.under_replicated)} under-replicated.",
            )
        )
    coordinators = {}
    for topic in COORDINATORS if settings is not None else ():
        with contextlib.suppress(NotAvailableError):  # it does not exist yet: its setting is looked at instead
            coordinators[topic] = min((len(one.replicas) for one in vendor.partitions(*topic.split("/"))), default=0)
    return dataclasses.replace(
        config, brokers=brokers, notes=[*config.notes, *notes], redpanda=settings, coordinators=coordinators
    )


def _leaving(vendor: VendorApi, members: Members) -> Iterator[Note]:
    for member in members.brokers:
        if member.membership != "active":
            try:
                left = f": {vendor.replicas_left(member.id)} replicas are left on it"
            except NotAvailableError:
                left = ""
            yield Note(f"broker {member.id}", f"It is being decommissioned{left}.")

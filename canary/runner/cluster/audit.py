"""The audit of a cluster as the settings want it, and how its outcome is shown."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import structlog

from canary.metrics import Measurement
from canary.runner import mirroring
from canary.watching.audit import collect
from canary.watching.beyond import KafkaAlone, NotAvailableError
from canary.watching.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary.settings import ClusterSettings, Settings
    from canary.watching.audited import Audit, Audited
    from canary.watching.beyond import Beyond, Member

log = structlog.get_logger(__name__)

SEVERITIES = ("critical", "warning", "info")
_NIGHT_S = 86_400.0


def collected(settings: Settings, cluster: ClusterSettings, admin: Any) -> Audited:
    """Ask ``cluster`` for what its audit looks at.

    Raises:
        UnreachableError: it does not answer.
    """
    watch = cluster.watch
    mirrors = mirroring.mirrored(cluster)
    named = Selection((*watch.audit, *mirrors.values()), watch.offsets)
    probes = {cluster.topic.name, *(cluster.topic_of(mode) for mode in cluster.modes.enabled())}
    every = _NIGHT_S if settings.schedule.reconcile is not None else None
    with beyond(cluster) as other:
        found = collect(admin, probes, named, reconcile_every_s=every, beyond=other)
    return dataclasses.replace(found, mirrors=mirrors, probe_rates=_rates(cluster))


def _rates(cluster: ClusterSettings) -> dict[str, float]:
    """Return the bytes/s that modes write to each partition of their topics, as far as every round writes to each."""
    return {
        cluster.topic_of(name): mode.record_length / mode.interval
        for name, mode in cluster.modes.enabled().items()
        if name in {"idempotent", "plain", "mirror"}
    }


@contextlib.contextmanager
def beyond(cluster: ClusterSettings) -> Iterator[Beyond]:
    """Give what tells of a cluster what the Kafka protocol does not."""
    settings = cluster.watch.redpanda
    if settings.admin_url is None:
        yield KafkaAlone()
        return
    from canary.watching.redpanda import RedpandaAdmin  # noqa: PLC0415  # its HTTP client is for Redpanda alone

    with RedpandaAdmin(settings.admin_url, settings.credentials) as redpanda:
        yield redpanda


def members(cluster: ClusterSettings) -> tuple[Member, ...] | None:
    """Return the brokers that belong to a cluster, dead ones and leaving ones too; None where that is not available."""
    with beyond(cluster) as other:
        try:
            return other.members().brokers
        except NotAvailableError as error:
            log.debug("members_not_available", reason=str(error))
            return None


def as_json(done: Audit) -> dict[str, Any]:
    """Return an audit as the store, the API and the command line show it."""
    return {
        "findings": [dataclasses.asdict(one) for one in done.findings],
        "notes": [dataclasses.asdict(one) for one in done.notes],
    }


def measured(done: Audit) -> list[Measurement]:
    """Return how many findings of each severity there are."""
    return [
        Measurement("canary_audit_findings", (severity,), sum(one.severity == severity for one in done.findings))
        for severity in SEVERITIES
    ]

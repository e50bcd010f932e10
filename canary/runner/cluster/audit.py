"""The audit of a cluster as the settings want it, and the vendor's admin API that they name."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import structlog

from canary.runner.topics import probe_topics
from canary.settings import ClusterSettings, Settings
from canary.watching.audit.cluster_config import ClusterConfig
from canary.watching.audit.collection import collect
from canary.watching.selection import Selection
from canary.watching.vendor_api import Member, NotAvailableError, VendorApi
from canary.workloads.catalogue import WORKLOADS

log = structlog.get_logger(__name__)

_NIGHT_S = 86_400.0


def collect_config(settings: Settings, cluster: ClusterSettings, admin: Any) -> ClusterConfig:
    """Ask ``cluster`` for what its audit looks at.

    Raises:
        UnreachableError: it does not answer.
    """
    watch = cluster.watch
    mirrors = probe_topics.mirrored(cluster)
    named = Selection((*watch.audit, *mirrors.values()), watch.offsets)
    probes = {cluster.topic.name, *(cluster.topic_of(mode) for mode in cluster.modes.enabled())}
    every = _NIGHT_S if settings.schedule.reconcile is not None else None
    with vendor_api(cluster) as vendor:
        found = collect(admin, probes, named, reconcile_every_s=every, vendor=vendor)
    rates = {
        cluster.topic_of(name): mode.record_bytes * mode.rate
        for name, mode in cluster.modes.declared().items()
        if WORKLOADS[name].every_partition
    }
    return dataclasses.replace(found, mirrors=mirrors, probe_rates=rates)


@contextlib.contextmanager
def vendor_api(cluster: ClusterSettings) -> Iterator[VendorApi]:
    """Open the admin API that the settings name; the Kafka protocol alone where they name none."""
    settings = cluster.watch.redpanda
    if settings.admin_url is None:
        yield VendorApi()
        return
    from canary.watching.redpanda_api import RedpandaAdmin  # noqa: PLC0415  # its HTTP client is for Redpanda alone

    with RedpandaAdmin(settings.admin_url, settings.credentials) as redpanda:
        yield redpanda


def members(cluster: ClusterSettings) -> tuple[Member, ...] | None:
    """Return the brokers that belong to a cluster, dead and leaving ones too; None where that is not available."""
    with vendor_api(cluster) as vendor:
        try:
            return vendor.members().brokers
        except NotAvailableError as error:
            log.debug("members_not_available", reason=str(error))
            return None

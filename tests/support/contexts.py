"""What the parts of a cluster's runner share, for a part without the others."""

from __future__ import annotations

from typing import Any

from canary.runner.context import ClusterContext
from canary.runner.publishing.inbox import FactQueue
from canary.settings import Settings
from canary.threads.ports import SteadyClock


def context(
    store: Any = None, cluster: str = "c", runner: str = "r", *, inbox: Any = None, clock: Any = None, **others: Any
) -> ClusterContext:
    """Return the context of a cluster's runner; ``others`` are the cluster's settings, and the probe log's URL."""
    probe_log = {"url": others.pop("probe_log")} if "probe_log" in others else {}
    kafka = others.pop("kafka", {"bootstrap.servers": "127.0.0.1:1"})
    settings = Settings.model_validate(
        {
            "runner": {"name": runner},
            "probe_log": probe_log,
            "schedule": {"reconcile": others.pop("reconcile", None)},
            "clusters": [{"name": cluster, "kafka": kafka, **others}],
        }
    )
    return ClusterContext(settings, settings.clusters[0], store, inbox or FactQueue(), clock or SteadyClock())

"""PromQL that is right with one API replica and with ten. A metric that the catalogue lacks is a KeyError."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from canary.extras import remedy
from canary.metrics import METRICS

HERE: Final = 'cluster=~"$cluster"'
"""The chosen clusters."""
HEARTBEAT = "canary_runner_heartbeat_timestamp_seconds"
BEGAN = "canary_incident_begin_timestamp_seconds"
SERVED = "canary_api_cluster_store_up"
"""Of each cluster that an API serves there is a series, with or without the store: where it is absent, all is."""
SWITCHES: Final[Mapping[str, str]] = {
    "canary_api_certificate_": "set api.tls",
    "canary_api_info": "set api.url",
    "canary_certificate_": "set clusters[].kafka (ssl.*)",
    "canary_digest_": "set clusters[].digests.topics",
    "canary_drill_": "set clusters[].modes.drill",
    "canary_epochs_": "set clusters[].watch.epochs",
    "canary_group_": "set clusters[].watch.groups",
    "canary_group_commit_": "set clusters[].modes.group",
    "canary_groups_": "set clusters[].watch.groups",
    "canary_hanging_": "set clusters[].watch.transactions",
    "canary_mirror_": "set clusters[].replicated_from",
    "canary_notifications_": "set notify",
    "canary_quorum_": "set clusters[].watch.quorum",
    "canary_random_read": "set clusters[].readers.random_every",
    "canary_receipts_": "set clusters[].receipts.url",
    "canary_reconcile_": f"{remedy('spark')} and start canary schedule (schedule.reconcile)",
    "canary_replicas_": "set clusters[].watch.replicas",
    "canary_transaction_": "set clusters[].modes.transactional",
    "canary_transactions_": "set clusters[].watch.transactions",
}
"""What switches on the metrics that a default install lacks, by what their names begin with; the longest counts."""
REPLICA = "instance, pod"
"""The labels in which replicas of the API differ; all else they say is the same."""


def switches(expressions: Iterable[str]) -> str:
    """Return what to do so that there is something to show; "" if a default install has some of it."""
    asked = {name for expression in expressions for name in re.findall(r"\bcanary_\w+", expression)} - {HEARTBEAT}
    longest = sorted(SWITCHES, key=len, reverse=True)
    needed = {next((SWITCHES[known] for known in longest if name.startswith(known)), "") for name in asked}
    return "" if "" in needed else " or ".join(sorted(needed))


def one(expression: str) -> str:
    """Return ``expression`` once, however many replicas say it."""
    return f"max without ({REPLICA}) ({expression})"


def gauge(name: str, selector: str = "") -> str:
    """Return the value of a gauge."""
    return one(_selected(name, selector))


def least(name: str) -> str:
    """Return the least value of a gauge in which replicas differ, and canaries that one job scrapes."""
    return f"min without ({REPLICA}) ({_selected(name, '')})"


def rate(name: str, selector: str = "", window: str = "$__rate_interval") -> str:
    """Return the rate (1/s) of a counter."""
    return one(f"rate({_selected(name, selector)}[{window}])")


def increase(name: str, selector: str = "", window: str = "$__range") -> str:
    """Return by how much a counter rose within ``window``."""
    return one(f"increase({_selected(name, selector)}[{window}])")


def change(name: str, selector: str = "", window: str = "$__range") -> str:
    """Return by how much a gauge rose (or fell: below 0) within ``window``."""
    return one(f"delta({_selected(name, selector)}[{window}])")


def bucket_rate(name: str, selector: str = "", window: str = "$__rate_interval") -> str:
    """Return the rate (1/s) of the buckets of a histogram, each with those below it (label le)."""
    return one(f"rate({_bucket(name)}{_braces(selector)}[{window}])")


def buckets(name: str, selector: str = "", window: str = "$__range") -> str:
    """Return by how much the buckets of a histogram rose within ``window``, each with those below it (label le)."""
    return one(f"increase({_bucket(name)}{_braces(selector)}[{window}])")


def quantile(q: float, name: str, selector: str, by: str, window: str = "$__rate_interval") -> str:
    """Return a quantile (in the metric's unit) of a histogram, by the given labels."""
    return f"histogram_quantile({q}, sum by (le, {by}) ({bucket_rate(name, selector, window)}))"


def _bucket(name: str) -> str:
    if METRICS[name].type != "histogram":
        raise KeyError(name)
    return f"{name}_bucket"


def _selected(name: str, selector: str) -> str:
    return f"{METRICS[name].name}{_braces(selector)}"


def _braces(selector: str) -> str:
    return f"{{{selector}}}" if selector else ""

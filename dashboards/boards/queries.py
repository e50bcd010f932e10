"""PromQL that is right with one API replica and with ten. A metric that the catalogue lacks is a KeyError."""

from canary.metrics import METRICS

HEARTBEAT = "canary_runner_heartbeat_timestamp_seconds"
REPLICA = "instance, pod"
"""The labels in which replicas of the API differ; all else they say is the same."""


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

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


def rate(name: str, selector: str = "", window: str = "$__rate_interval") -> str:
    """Return the rate (1/s) of a counter."""
    return one(f"rate({_selected(name, selector)}[{window}])")


def increase(name: str, selector: str = "", window: str = "$__range") -> str:
    """Return by how much a counter rose within ``window``."""
    return one(f"increase({_selected(name, selector)}[{window}])")


def quantile(q: float, name: str, selector: str, by: str) -> str:
    """Return a quantile (in the metric's unit) of a histogram, by the given labels."""
    if METRICS[name].type != "histogram":
        raise KeyError(name)
    buckets = one(f"rate({name}_bucket{_braces(selector)}[$__rate_interval])")
    return f"histogram_quantile({q}, sum by (le, {by}) ({buckets}))"


def _selected(name: str, selector: str) -> str:
    return f"{METRICS[name].name}{_braces(selector)}"


def _braces(selector: str) -> str:
    return f"{{{selector}}}" if selector else ""

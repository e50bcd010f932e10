"""How a workload's client gathers, compresses and sends: librdkafka properties from the workload's settings."""

from collections.abc import Mapping
from typing import Any, Final

from canary.workloads.descriptor import Writing

_PROPERTIES: Final[Mapping[str, tuple[str, ...]]] = {
    "linger": ("linger.ms", "queue.buffering.max.ms"),
    "batch": ("batch.size",),
    "in_flight": ("max.in.flight.requests.per.connection", "max.in.flight"),
    "compression": ("compression.type", "compression.codec"),
}
"""By setting, the property that it is, and its other names: with both set, the order would decide."""


def piped(config: Mapping[str, object], settings: Writing) -> dict[str, Any]:
    """Return ``config`` with what the settings say; what they leave out stays as it is."""
    given = {name: value for name in _PROPERTIES if (value := getattr(settings, name, None)) is not None}
    replaced = {other for name in given for other in _PROPERTIES[name]}
    properties = {_PROPERTIES[name][0]: value for name, value in given.items()}
    if "linger" in given:
        properties["linger.ms"] = 1000 * given["linger"]
    return {name: value for name, value in config.items() if name not in replaced} | properties

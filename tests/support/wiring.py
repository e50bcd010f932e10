"""What a writer is made from, without a runner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary.probing.base import Renewal, Wiring
from canary.probing.readers.consumer import Target
from canary.settings import ClusterSettings
from canary.threads.ports import SteadyClock
from canary.workloads.catalogue import WORKLOADS

if TYPE_CHECKING:
    from canary.threads.ports import Inbox

TAG = b"tag1"
UNDER = Renewal(1, TAG, (0, 1, 2))


def _unasked(reason: str) -> Renewal:
    raise AssertionError(f"nobody should ask for a new generation: {reason}")


def wired(inbox: Inbox, mode: str = "idempotent", topic: str = "t", **others: Any) -> Wiring[Any]:
    """Return a wiring; keywords are its attributes, or settings of the workload."""
    values: dict[str, Any] = {
        "cluster": ClusterSettings.model_validate({}),
        "producer_id": 7,
        "first": 7,
        "under": UNDER,
        "renew": _unasked,
        "targets": lambda _: Target(None, TAG, (0,)),
        "clock": SteadyClock(),
    }
    values |= {name: others.pop(name) for name in values if name in others}
    return Wiring(mode=mode, topic=topic, settings=WORKLOADS[mode].settings(**others), inbox=inbox, **values)

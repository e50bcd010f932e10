"""The probes of a topic that drills of a live cluster may harm."""

from dataclasses import dataclass

from canary.workloads import descriptor
from canary.workloads.descriptor import Workload, duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(descriptor.Settings):
    """What can be set."""

    interval: float = duration(
        1.0,
        "Time between two probes to the same partition: one probe to every partition in each interval (duration).",
        gt=0,
    )


WORKLOAD = Workload(
    name="drill",
    number=8,
    writer="idempotent",
    every_partition=True,
    rehearses=True,
    settings=Settings,
    summary="The probes of `idempotent` in a topic of their own, for drills: `canary drill run NAME --cluster NAME` "
    "forges records there, and proves the way from Kafka to the pager.",
    does="like `idempotent`, to a topic that drills of this cluster harm on purpose; off unless named",
    finds="whether the alarm rings: what is found there while a drill runs is marked as a drill's",
    costs="a producer; a probe a second and partition as it is set",
)

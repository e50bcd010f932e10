"""The main workload's probes in a topic that is set like a production topic."""

from dataclasses import dataclass

from canary.workloads.descriptor import Settings, Workload, topic_name


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings(Settings):
    """Which topic is mirrored."""

    of: str = topic_name(
        "The production topic. The mode's topic is made with its replication factor and the settings that were made on "
        "it; where the two drift apart, the audit says so. No record of it is read."
    )


WORKLOAD = Workload(
    name="mirror",
    number=7,
    every_partition=True,
    settings=MirrorSettings,
    summary="Like idempotent, in a topic that is set like a production topic, whose durability it then shows.",
    does="like `idempotent`, in a topic that is made like the production topic `of`",
    finds="whether *that* topic's settings keep what is written",
    costs="a producer",
)

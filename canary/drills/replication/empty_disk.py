"""A broker comes back with an empty disk.

A machine is replaced, or a volume is not mounted, and the broker starts under its old id with nothing on its disk. The
cluster takes it for the one that it was. Where it held the only copy of a partition, the partition begins anew at
offset 0, and producers are acknowledged as if nothing had been.

The canary says which acknowledged probes are gone, and that the log was cut.
"""

from dataclasses import replace

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.brokers import Start, Stop, Wipe
from canary.drills.steps.waiting import UntilAcked, UntilIsr, UntilReadable

_STEPS = (UntilAcked(20), Stop((2,)), Wipe((2,)), Start((2,), wait=False))
_LONE = Stage(topics={PROBES: Topic(replicas=((2,),))}, cluster={"watch": {"topics": []}})

DRILL = Drill(
    title="A broker comes back with an empty disk",
    source="KIP-631 (ids of disks); call-me-maybe-kafka",
    stage=_LONE,
    steps=(*_STEPS, UntilReadable(), UntilAcked(20)),
    says=(
        Said("lost-write", at="gone"),
        Said("truncation", at="gone", how="first"),
    ),
    echoes=frozenset({"unseen", "inconsistent-offsets"}),
    control=Control(
        why="With three replicas the others lead, and fill its disk again.",
        stage=replace(_LONE, topics={PROBES: Topic(replicas=((2, 3, 1),))}),
        steps=(*_STEPS, UntilIsr(frozenset({1, 2, 3})), UntilAcked(20)),
        may_say=frozenset(),
    ),
)

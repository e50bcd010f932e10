"""A group without a committed offset begins at the end.

auto.offset.reset=latest (librdkafka's default is largest, the same) is meant for the first start of a group. It also
decides where a partition goes on whose member died before its first commit (which comes five seconds after its start by
default, and here after thirty, so that no chance is in it): at the end, behind whatever was written meanwhile. With
earliest the same group begins the partition anew: everything is processed, some of it twice.

The cluster keeps every record all the while, and so the canary says nothing. As measured: of 2,000 records 638 were
never processed, and none twice; with earliest none was left out.
"""

from canary.drills.drill import Control, Drill
from canary.drills.steps.groups import GroupReads
from canary.drills.steps.waiting import UntilAcked

_LATE = {"auto.commit.interval.ms": 30_000}

DRILL = Drill(
    title="A group that begins at the end",
    source="jepsen-redpanda #10; KIP-842 (auto.offset.reset skips what a new partition holds)",
    steps=(GroupReads("latest", {**_LATE, "auto.offset.reset": "latest"}, commits="stored", loses=True), UntilAcked()),
    says=(),
    echoes=frozenset(),
    control=Control(
        why="With auto.offset.reset=earliest what was not committed is processed again.",
        steps=(GroupReads("earliest", {**_LATE, "auto.offset.reset": "earliest"}, commits="stored"), UntilAcked()),
        may_say=frozenset(),
    ),
)

"""A broker's disk is full.

The leader can write no more. It gives up its disk, and as it has no other, it ends. The followers have all that it
acknowledged, and one of them leads. With room on its disk the broker is started again.

Nothing is lost, and the canary says nothing.
"""

from canary.drills.drill import Drill
from canary.drills.stage import Stage
from canary.drills.steps.brokers import FillDisk, Start
from canary.drills.steps.waiting import UntilAcked, UntilIsr

DRILL = Drill(
    title="A broker's disk is full",
    source="KIP-112 (disks that fail)",
    stage=Stage(cluster={"watch": {"topics": []}}),
    steps=(
        UntilAcked(20),
        FillDisk(1),
        UntilIsr(frozenset({2, 3})),
        UntilAcked(20),
        Start((1,)),
        UntilIsr(frozenset({1, 2, 3})),
        UntilAcked(20),
    ),
    says=(),
    echoes=frozenset(),
    uncontrolled="It is a control itself: with three replicas nothing is lost, and nothing may be said.",
)

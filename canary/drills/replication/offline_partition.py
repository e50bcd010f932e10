"""All replicas of one partition are dead.

Four brokers hold two partitions of two replicas each. Brokers 2 and 3 die, one after the other, and with them
everything that partition 0 had. Partition 1, on brokers 1 and 4, works on: a look at the cluster as a whole shows
nothing but some errors.

The canary says that partition 0 is offline, and who was last in sync: whom to bring back. Both are brought back, with
all that was acknowledged, and nothing is lost.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.brokers import Kill, Start
from canary.drills.steps.waiting import Mark, Pass, UntilAcked, UntilIsr, UntilLed, UntilReadable

_STAGE = Stage(
    lab={"brokers": 4},
    topics={PROBES: Topic(replicas=((2, 3), (1, 4)))},
    cluster={"watch": {"topics": [], "offline_after": "2s"}},
)

DRILL = Drill(
    title="All replicas of one partition are dead",
    source='call-me-maybe-kafka ("block and sound an alarm")',
    stage=_STAGE,
    steps=(
        Kill((3,)),
        UntilIsr(frozenset({2})),
        Kill((2,)),
        UntilLed(None),
        Mark(),
        Pass(4),
        UntilAcked(20, partition=1),
        Start((2, 3)),
        UntilIsr(frozenset({2, 3})),
        UntilReadable(mark="back"),
        UntilAcked(20),
    ),
    says=(Said("offline-partition", partitions=frozenset({(PROBES, 0)}), severity="critical"),),
    echoes=frozenset({"unseen"}),
    control=Control(
        why="While one replica lives the partition has a leader.",
        stage=_STAGE,
        steps=(
            Kill((3,)),
            UntilIsr(frozenset({2})),
            Pass(4),
            Start((3,)),
            UntilIsr(frozenset({2, 3})),
            UntilAcked(20),
        ),
        may_say=frozenset(),
    ),
)

"""Replicas stay away.

Both followers die and do not come back. The leader is alone of three, and with min.insync.replicas=2 it refuses what
producers send: nothing is acknowledged that could be lost, and nothing is acknowledged at all.

The canary says that replicas are missing, that they are fewer than a majority, and that they are fewer than writes
need, once it has lasted longer than it was told a restart takes.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage
from canary.drills.steps.brokers import Kill, Start
from canary.drills.steps.waiting import Mark, Pass, UntilAcked, UntilIsr

_HERE = frozenset({(PROBES, 0)})

DRILL = Drill(
    title="Replicas stay away",
    source="call-me-maybe-kafka; distributed-consensus-reloaded",
    stage=Stage(cluster={"watch": {"topics": [], "under_replicated_after": "3s"}}),
    steps=(
        Kill((2, 3)),
        UntilIsr(frozenset({1})),
        Mark(),
        Pass(6),
        Start((2, 3)),
        UntilIsr(frozenset({1, 2, 3})),
        UntilAcked(20),
    ),
    says=(
        Said("under-replicated", partitions=_HERE, within_s=6, severity="warning"),
        Said("under-min-isr", partitions=_HERE, within_s=6, severity="critical"),
        Said("isr-below-half", partitions=_HERE, within_s=6, severity="warning"),
    ),
    echoes=frozenset(),
    control=Control(
        why="Brokers that are back before the set time were restarted, and nobody has to be woken.",
        stage=Stage(cluster={"watch": {"topics": [], "under_replicated_after": "60s"}}),
        may_say=frozenset(),
    ),
)

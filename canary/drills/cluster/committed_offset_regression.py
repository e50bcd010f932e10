"""A consumer group's committed offset goes back.

All brokers lose power at once, and the newest records of the offsets topic were never flushed. A group is answered with
an offset that it had committed long before, and processes again what it had done with. No error is logged, and the
records that it reads are all there.

The canary's own group had its commit acknowledged, and says that it went back.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage
from canary.drills.steps.brokers import Kill, LosePageCache, Start
from canary.drills.steps.waiting import UntilAcked, UntilIsr, UntilReadable

_ALL = (1, 2, 3)
_OFFSETS = LosePageCache(_ALL, records=10, topic="__consumer_offsets", partitions=(0, 1, 2))
_BACK = (Start(_ALL), UntilIsr(frozenset(_ALL)), UntilReadable(), UntilAcked(20))

DRILL = Drill(
    title="A consumer group's committed offset goes back",
    source="jepsen-redpanda 1.1; why-fsync",
    stage=Stage(
        modes={"idempotent": {"interval": "100ms"}, "group": {"rebalance_every": "5s"}},
        cluster={"watch": {"topics": []}},
    ),
    steps=(UntilAcked(100), Kill(_ALL), _OFFSETS, *_BACK),
    says=(Said("committed-offset-regression", partitions=frozenset({(PROBES, 0)}), within_s=20, severity="warning"),),
    echoes=frozenset({"unseen", "offline-partition"}),
    control=Control(
        why="Brokers that die with all that they wrote still on their disks answer what was committed.",
        steps=(UntilAcked(100), Kill(_ALL), *_BACK),
        may_say=frozenset({"unseen", "offline-partition"}),
    ),
)

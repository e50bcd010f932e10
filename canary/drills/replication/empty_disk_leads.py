"""The last one in sync comes back with an empty disk, and leads.

Brokers 1 and 3 die one after the other, and broker 2 is the last one in sync. It dies as well, and its disk is replaced
by an empty one. All come back from an unclean shutdown, so that none is an eligible leader replica any more, and the
last known leader is elected: it leads, with an empty log, and the others, which hold all of it, cut off what they have.
(Without eligible leader replicas Kafka 4.1 sees that broker 2 has another disk than it had, and lets nobody lead.)

The canary says which acknowledged probes are gone, and that the log was cut.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.brokers import Kill, Start, Wipe
from canary.drills.steps.waiting import UntilAcked, UntilIsr, UntilReadable

_STAGE = Stage(
    topics={PROBES: Topic(replicas=((2, 3, 1),))},
    cluster={"watch": {"topics": []}},
)
_DEAD = (UntilAcked(20), Kill((1,)), Kill((3,)), UntilIsr(frozenset({2})), Kill((2,)))
_BACK = (Start((1, 2, 3), wait=False), UntilReadable(), UntilIsr(frozenset({1, 2, 3})), UntilAcked(20))

DRILL = Drill(
    title="The last one in sync comes back with an empty disk, and leads",
    source="why-fsync (storage that forgets); KIP-966",
    stage=_STAGE,
    steps=(*_DEAD, Wipe((2,)), *_BACK),
    says=(
        Said("lost-write", at="gone"),
        Said("truncation", at="gone", how="first"),
    ),
    echoes=frozenset({"unseen", "offline-partition", "inconsistent-offsets"}),
    control=Control(
        why="Brokers that come back with the disks that they had lose nothing.",
        steps=(*_DEAD, *_BACK),
        may_say=frozenset({"unseen", "offline-partition"}),
    ),
)

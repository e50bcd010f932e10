"""The same with ZooKeeper.

Kafka 3.4 with ZooKeeper, as it ran for years, loses what was acknowledged as today's Kafka does: broker 3, the only
other replica in sync, is frozen; broker 2, the leader, loses power, comes back without the records that it never
flushed, and leads again, since it was the last one in sync.

The canary says which acknowledged probes are gone, and where the log was cut.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.brokers import Kill, LosePageCache, Pause, Resume, Start
from canary.drills.steps.waiting import UntilAcked, UntilIsr, UntilReadable

_STAGE = Stage(
    version="3.4.0",
    lab={"zookeeper": True},
    topics={PROBES: Topic(replicas=((2, 3, 1),))},
    cluster={"watch": {"topics": []}},
)

DRILL = Drill(
    title="A leader comes back without what it never flushed, with ZooKeeper",
    source="why-fsync (as it was published)",
    stage=_STAGE,
    steps=(
        Kill((1,)),
        UntilIsr(frozenset({2, 3})),
        UntilAcked(20),
        Pause((3,)),
        UntilIsr(frozenset({2})),
        Kill((2,)),
        LosePageCache((2,)),
        Start((1, 2), wait=False),
        UntilReadable(),
        UntilIsr(frozenset({1, 2})),
        UntilAcked(20),
        Resume((3,)),
        UntilAcked(20),
    ),
    says=(
        Said("lost-write", at="gone"),
        Said("truncation", at="gone", how="first"),
    ),
    echoes=frozenset({"unseen", "offline-partition", "inconsistent-offsets"}),
    control=Control(
        why="With flush.messages=1 each record is on disk before it is acknowledged.",
        stage=_STAGE.with_topic_config(flush_messages="1"),
        may_say=frozenset({"unseen", "offline-partition"}),
    ),
)

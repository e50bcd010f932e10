"""Every in-sync replica had acknowledged it, and no disk.

Kafka acknowledges what is in the page caches of the in-sync replicas. Broker 3, the only other replica in sync, is
isolated; broker 2, the leader, loses power, comes back without the records that it never flushed, and leads again: it
was the last one in sync. It gives the same offsets to other records, and when broker 3 returns with the good copy, it
cuts it off. No broker logs an error, and no client is told.

The canary says which acknowledged probes are gone, and where the log was cut.
"""

from canary.drills.drill import REPLICAS_MISSING, Control, Drill, Said
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.brokers import Kill, LosePageCache, Pause, Resume, Start
from canary.drills.steps.waiting import UntilAcked, UntilIsr, UntilReadable

_STAGE = Stage(
    lab={"features": {"eligible.leader.replicas.version": 0}},
    topics={PROBES: Topic(replicas=((2, 3, 1),))},
)

DRILL = Drill(
    title="A leader comes back without what it never flushed",
    source='why-fsync; FIELD-NOTES "Why fsync, reproduced"',
    stage=_STAGE,
    steps=(
        Kill((1,)),
        UntilIsr(frozenset({2, 3})),
        UntilAcked(20),
        Pause((3,)),
        UntilIsr(frozenset({2})),
        Kill((2,)),
        LosePageCache((2,)),
        Start((1, 2)),
        UntilIsr(frozenset({1, 2})),
        UntilReadable(),
        UntilAcked(20),
        Resume((3,)),
        UntilIsr(frozenset({1, 2, 3})),
    ),
    says=(
        Said("lost-write", at="gone"),
        Said("truncation", at="gone", how="first"),
    ),
    echoes=REPLICAS_MISSING | {"offline-partition", "inconsistent-offsets"},
    control=Control(
        why="With flush.messages=1 each record is on disk before it is acknowledged.",
        stage=_STAGE.with_topic_config(flush_messages="1"),
        may_say=REPLICAS_MISSING | {"offline-partition"},
    ),
    short=True,
)

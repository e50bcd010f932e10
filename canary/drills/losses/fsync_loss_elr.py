"""Eligible leader replicas do not save what no disk has.

Since Kafka 4.0 the controller remembers who was in sync when the ISR became too small (eligible leader replicas,
KIP-966), and lets nobody else lead. That helps while such a replica only was away. Here both that were in sync die:
each comes back from an unclean shutdown, and is struck off the list, since it may have lost what it had. The list is
empty, and the last known leader is elected, although the other one is there with everything that was acknowledged. The
last leader is the one whose page cache was lost.

The canary says which acknowledged probes are gone, and where the log was cut.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.brokers import Kill, LosePageCache, Start
from canary.drills.steps.waiting import UntilAcked, UntilIsr, UntilReadable

_STAGE = Stage(topics={PROBES: Topic(replicas=((2, 3, 1),))}, cluster={"watch": {"topics": []}})

DRILL = Drill(
    title="Eligible leader replicas do not save what no disk has",
    source='KIP-966; why-fsync; FIELD-NOTES "Why fsync, reproduced"',
    stage=_STAGE,
    steps=(
        Kill((1,)),
        UntilIsr(frozenset({2, 3})),
        UntilAcked(20),
        Kill((3,)),
        UntilIsr(frozenset({2})),
        Kill((2,)),
        LosePageCache((2,)),
        Start((1, 3)),
        Start((2,), wait=False),
        UntilReadable(),
        UntilIsr(frozenset({1, 2, 3})),
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

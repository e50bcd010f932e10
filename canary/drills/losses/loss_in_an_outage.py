"""A power cut takes what was acknowledged, and the outage that it begins with hides it.

All brokers lose power at once. They come back one by one: the first has no replica of two partitions, the others come
without their newest records. At first these have no leader, which is an outage; a moment later they have one, and their
last records are gone for ever.

The canary says which probes are gone. The incident that began as an outage is headed by the loss: its title, its advice
and what people are told are those of lost writes.
"""

from canary.drills.drill import OUTAGE, Control, Drill, Said
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.brokers import Kill, LosePageCache, Start
from canary.drills.steps.saying import UntilHeaded
from canary.drills.steps.waiting import UntilAcked, UntilIsr, UntilReadable, UntilSaid

_BOTH = (0, 1)
_HOLDERS = (2, 3)
_STAGE = Stage(
    topics={PROBES: Topic(replicas=(_HOLDERS, (3, 2)))},
    cluster={"watch": {"topics": [], "offline_after": "1s"}},
)
_STEPS = (
    UntilAcked(30),
    UntilAcked(30, partition=1),
    Kill((1, 2, 3)),
    LosePageCache(_HOLDERS, records=16, partitions=_BOTH),
    Start((1,)),
    UntilSaid("offline-partition"),
    Start(_HOLDERS),
    UntilIsr(frozenset(_HOLDERS)),
    UntilIsr(frozenset(_HOLDERS), partition=1),
    UntilReadable(_BOTH),
    UntilAcked(20),
    UntilAcked(20, partition=1),
)

DRILL = Drill(
    title="A loss in an outage",
    source="why-fsync; call-me-maybe-kafka",
    stage=_STAGE,
    steps=(*_STEPS, UntilHeaded("lost-write", frozenset({(PROBES, 0), (PROBES, 1)}))),
    says=(
        Said("lost-write", at="gone"),
        Said("truncation", at="gone", how="first", severity="critical"),
    ),
    echoes=OUTAGE | {"inconsistent-offsets", "unclean-election"},
    control=Control(
        why="With flush.messages=1 each record is on disk before it is acknowledged: the same outage loses nothing.",
        stage=_STAGE.with_topic_config(flush_messages="1"),
        steps=_STEPS,
        may_say=OUTAGE,
    ),
)

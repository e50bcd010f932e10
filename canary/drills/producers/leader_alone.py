"""What a leader acknowledged alone dies with it.

With acks=1 the leader answers before a follower has the record. Both followers are frozen, so shortly that they stay in
sync; the leader is killed; a follower leads. What only the dead leader had is gone, its offsets are given to other
records, and when the old leader is back it cuts its own copy off.

The canary says which acknowledged probes are gone, and which offsets were given twice: warnings, of the mode plain.
"""

from canary.drills.drill import REPLICAS_MISSING, Control, Drill, Said
from canary.drills.rig.direct import GONE
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.brokers import Kill, Pause, Resume, Start
from canary.drills.steps.step import Step
from canary.drills.steps.waiting import Pass, UntilAcked, UntilIsr, UntilReadable
from canary.lab import NodeProperties

_PLAIN = f"{PROBES}-plain"
_PATIENT = NodeProperties(
    brokers={"replica.lag.time.max.ms": "30000"}, controller={"broker.session.timeout.ms": "6000"}
)


def _steps(topic: str) -> tuple[Step, ...]:
    return (
        UntilAcked(topic=topic),
        Pause((2, 3)),
        Pass(1.5),
        Kill((1,)),
        Resume((2, 3)),
        UntilReadable(topic=topic),
        UntilAcked(topic=topic),
        Start((1,)),
        UntilIsr(frozenset({1, 2, 3}), topic=topic),
    )


DRILL = Drill(
    title="What a leader acknowledged alone dies with it",
    source="call-me-maybe-kafka; jepsen-redpanda 1.1",
    stage=Stage(
        properties=_PATIENT,
        topics={PROBES: Topic(), _PLAIN: Topic()},
        modes={"plain": {"interval": "100ms"}},
    ),
    steps=_steps(_PLAIN),
    says=(Said("lost-write", at=GONE, severity="warning"),),
    echoes=REPLICAS_MISSING | {"offline-partition", "truncation", "inconsistent-offsets"},  # views of the same loss
    control=Control(
        why="With acks=all the leader waits for the followers.",
        stage=Stage(properties=_PATIENT),
        steps=_steps(PROBES),
        may_say=REPLICAS_MISSING | {"offline-partition"},
    ),
)

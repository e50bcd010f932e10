"""A broker's clock is wrong.

A broker starts with a clock that is a minute ahead. Replication and leader epochs do not care. Whatever goes by the
time of records does: with message.timestamp.type=LogAppendTime the leader's clock dates them, retention deletes by
these dates, and consumers look for them.

The canary says that the leader's clock and its own disagree.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.brokers import StartWithClock, Stop
from canary.drills.steps.operating import Elect
from canary.drills.steps.step import Step
from canary.drills.steps.waiting import Mark, UntilAcked, UntilIsr, UntilLed


def _steps(ahead_s: float) -> tuple[Step, ...]:
    return (
        UntilAcked(20),
        Stop((1,)),
        StartWithClock(1, ahead_s),
        UntilIsr(frozenset({1, 2, 3})),
        Elect("preferred"),
        UntilLed(1),
        Mark(),
        UntilAcked(50),
    )


DRILL = Drill(
    title="A broker's clock is wrong",
    source="jepsen-redpanda 2 (clock faults)",
    stage=Stage(
        topics={PROBES: Topic(config={"message.timestamp.type": "LogAppendTime"})}, cluster={"watch": {"topics": []}}
    ),
    steps=_steps(60.0),
    says=(Said("clock-skew", partitions=frozenset({(PROBES, 0)}), within_s=10, severity="warning"),),
    echoes=frozenset(),
    control=Control(why="Clocks that are two seconds apart are as usual.", steps=_steps(2.0), may_say=frozenset()),
)

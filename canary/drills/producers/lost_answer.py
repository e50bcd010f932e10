"""The answer is lost, and the producer sends again.

A broker appends a record, and its answer is lost with the connection. The producer cannot know, and sends again;
without idempotence the broker cannot know either, and appends a second copy.

The canary says which record stands twice: a warning, of the mode plain.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.rig.direct import TWICE
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.network import Faults, UntilHappened
from canary.drills.steps.step import Step
from canary.drills.steps.waiting import UntilAcked
from canary.lab import LoseAnswers

_PLAIN = f"{PROBES}-plain"
_STAGE = Stage(
    lab={"proxied": True},
    topics={PROBES: Topic(), _PLAIN: Topic()},
    modes={"plain": {"interval": "100ms"}},
)


def _steps(topic: str) -> tuple[Step, ...]:
    return UntilAcked(topic=topic), Faults((LoseAnswers("Produce"),)), UntilHappened(), UntilAcked(topic=topic)


DRILL = Drill(
    title="The answer is lost, and the producer sends again",
    source="idempotent-producer; jepsen-redpanda 1.1 and 3.1",
    stage=_STAGE,
    steps=_steps(_PLAIN),
    says=(Said("duplicate", at=TWICE, severity="warning"),),
    echoes=frozenset(),
    control=Control(
        why="The broker knows the number of an idempotent producer's batch, and answers again.",
        stage=Stage(lab={"proxied": True}),
        steps=_steps(PROBES),
        may_say=frozenset(),
    ),
)

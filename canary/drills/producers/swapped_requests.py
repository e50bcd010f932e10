"""Two requests change places.

Without idempotence a client may have many requests under way at once, and nothing in them says which comes first. One
is held up until the next has passed (a retry does the same): the broker appends them as they come.

The canary says which record stands before one that was sent earlier: a warning, of the mode plain.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.rig.direct import DISORDERED
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.network import Faults, UntilHappened
from canary.drills.steps.step import Step
from canary.drills.steps.waiting import UntilAcked
from canary.lab import Hold

_PLAIN = f"{PROBES}-plain"
_STAGE = Stage(
    lab={"proxied": True},
    topics={PROBES: Topic(), _PLAIN: Topic()},
    modes={"plain": {"interval": "100ms"}},
)


def _steps(topic: str) -> tuple[Step, ...]:
    return (
        UntilAcked(topic=topic),
        Faults((Hold("Produce", until_api="Produce"),)),
        UntilHappened(),
        UntilAcked(topic=topic),
    )


DRILL = Drill(
    title="Two requests change places",
    source="idempotent-producer (pipelining); jepsen-redpanda 3.5",
    stage=_STAGE,
    steps=_steps(_PLAIN),
    says=(Said("nonmonotonic-send", at=DISORDERED, severity="warning"),),
    echoes=frozenset({"reorder"}),
    control=Control(
        why="The broker refuses an idempotent producer's batch that comes too early.",
        stage=Stage(lab={"proxied": True}),
        steps=_steps(PROBES),
        may_say=frozenset(),
    ),
)

"""A fenced producer's write is taken.

When a second producer takes a transactional id over, the first one is fenced: brokers refuse what it writes from then
on. The canary's mode fencing takes over from itself all the time, and lets the fenced one try. Here an ordinary
producer appends, outside any transaction, the record that the fenced one tried to write: for whoever reads the log that
is a broker that took it.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.waiting import UntilAcked
from canary.drills.steps.writing import FORGED, Forge

_TOPIC = f"{PROBES}-fencing"
_UNTIL = UntilAcked(5, topic=_TOPIC)

DRILL = Drill(
    title="A fenced producer's write is taken",
    source="idempotent-producer (fencing); jepsen-redpanda 1.3",
    stage=Stage(topics={PROBES: Topic(), _TOPIC: Topic()}, modes={"fencing": {"interval": "500ms", "timeout": "5s"}}),
    steps=(_UNTIL, Forge("of a zombie", topic=_TOPIC), _UNTIL),
    says=(Said("zombie-write", at=FORGED, severity="critical"),),
    echoes=frozenset(),
    control=Control(
        why="The fenced producers' own attempts are refused, in every round.",
        steps=(_UNTIL, _UNTIL, _UNTIL),
        may_say=frozenset(),
    ),
)

"""The clock of the canary's machine is set an hour ahead, two hours back, and right again.

A wrong time server, a virtual machine that was suspended, an operator's date command. No judgement may hang on a clock:
neither the age of a probe, nor that of a heartbeat, nor the order of two facts. Probing goes on, /readyz stays 200, and
nothing is said.
"""

from canary.drills.drill import Drill
from canary.drills.steps.canary import OwnClock, StepClock
from canary.drills.steps.saying import NothingForgotten, UntilReady
from canary.drills.steps.waiting import Pass, UntilAcked

DRILL = Drill(
    title="The canary's clock is set",
    source="jepsen-redpanda 2 (clock faults)",
    steps=(
        OwnClock(),
        UntilAcked(),
        StepClock(3600),
        UntilAcked(),
        Pass(12),
        UntilReady(),
        StepClock(-3600),
        UntilAcked(),
        Pass(12),
        UntilReady(),
        StepClock(0),
        UntilAcked(),
        NothingForgotten(),
    ),
    says=(),
    echoes=frozenset(),
    uncontrolled="Nothing may be said: the drill is its own control.",
)

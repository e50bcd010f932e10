"""A reader is not given what the log holds.

A broker answers a fetch, and a batch in the middle of the answer is missing, without an error: offsets without a record
are nothing unusual, and the reader goes on behind it. Whoever reads the log afresh finds everything.

The canary says that readers passed committed records, and nothing of a loss.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage
from canary.drills.steps.network import Faults, Heal, UntilHappened
from canary.drills.steps.waiting import UntilAcked
from canary.lab import Delay, ShiftFetch

SLOW = Delay("client", 1, 0.4)
"""So that an answer to a fetch has several batches."""
BEFORE = (UntilAcked(), Faults((SLOW,)), UntilAcked())

DRILL = Drill(
    title="A reader is not given what the log holds",
    source="jepsen-redpanda 2.2 and 3.6",
    stage=Stage(lab={"proxied": True}, modes={"idempotent": {"interval": "50ms"}}),
    steps=(
        *BEFORE,
        Faults((SLOW, ShiftFetch("client", 1, PROBES, 0, "skip", count=3))),
        UntilHappened(),
        Heal(),
        UntilAcked(),
    ),
    says=(Said("poll-skip", severity="warning"),),
    echoes=frozenset(),
    control=Control(
        why="Late answers alone mislead nobody.", steps=(*BEFORE, Heal(), UntilAcked()), may_say=frozenset()
    ),
)

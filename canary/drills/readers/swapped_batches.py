"""A reader is given records at each other's offsets.

Two neighbouring batches of an answer to a fetch have each other's offsets: the reader is told of two records at places
that are not theirs, and goes back by one. The log itself is as it should be.

The canary says that an offset was given to two records, and that a reader went back.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.readers.skipped_batch import BEFORE, SLOW
from canary.drills.stage import PROBES, Stage
from canary.drills.steps.network import Faults, Heal, UntilHappened
from canary.drills.steps.waiting import UntilAcked
from canary.lab import ShiftFetch

DRILL = Drill(
    title="A reader is given records at each other's offsets",
    source="jepsen-redpanda 2.2, 3.5 and 3.10",
    stage=Stage(lab={"proxied": True}, modes={"idempotent": {"interval": "50ms"}}),
    steps=(
        *BEFORE,
        Faults((SLOW, ShiftFetch("client", 1, PROBES, 0, "swap", count=3))),
        UntilHappened(),
        Heal(),
        UntilAcked(),
    ),
    says=(Said("inconsistent-offsets"), Said("nonmonotonic-poll")),
    echoes=frozenset(),
    control=Control(
        why="Late answers alone mislead nobody.", steps=(*BEFORE, Heal(), UntilAcked()), may_say=frozenset()
    ),
)

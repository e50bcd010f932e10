"""A record stands twice.

A broker that fails to recognise a retry appends it again. Here an ordinary producer appends the newest probe once more;
for whoever reads the log that is the same: one message at two offsets, where the idempotent producer promised one.
"""

from canary.drills.drill import Drill, Said
from canary.drills.forged import SOMEBODY_ELSES
from canary.drills.steps.waiting import UntilAcked
from canary.drills.steps.writing import FORGED, Forge

DRILL = Drill(
    title="A record stands twice",
    source="idempotent-producer; jepsen-redpanda 3.1 and 3.2",
    steps=(UntilAcked(), Forge("copy"), UntilAcked()),
    says=(Said("duplicate", at=FORGED),),
    echoes=frozenset(),
    control=SOMEBODY_ELSES,
    live=True,
    short=True,
)

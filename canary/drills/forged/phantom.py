"""A record that nobody sent.

A consumer is given something that no producer wrote: a batch in the wrong partition, a log restored from elsewhere.
Here an ordinary producer appends a whole probe, checksum and all, with an identity that the canary never sent.
"""

from canary.drills.drill import Drill, Said
from canary.drills.forged import SOMEBODY_ELSES
from canary.drills.steps.waiting import UntilAcked
from canary.drills.steps.writing import FORGED, Forge

DRILL = Drill(
    title="A record that nobody sent",
    source="jepsen tests/kafka.clj (no writer of a polled value)",
    steps=(UntilAcked(), Forge("never sent"), UntilAcked()),
    says=(Said("phantom", at=FORGED),),
    echoes=frozenset(),
    control=SOMEBODY_ELSES,
    live=True,
)

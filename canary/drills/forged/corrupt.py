"""A bit flips at rest.

A disk, a memory cell or a network card alters a record, and the broker stores it under a checksum of its own that is
right. Here an ordinary producer appends the newest probe with one bit changed: Kafka's CRC covers it, the probe's own
checksum does not.
"""

from canary.drills.drill import Drill, Said
from canary.drills.forged import SOMEBODY_ELSES
from canary.drills.steps.waiting import UntilAcked
from canary.drills.steps.writing import FORGED, Forge

DRILL = Drill(
    title="A bit flips at rest",
    source="why-fsync (storage that lies)",
    steps=(UntilAcked(), Forge("altered"), UntilAcked()),
    says=(Said("corrupt", at=FORGED),),
    echoes=frozenset(),
    control=SOMEBODY_ELSES,
    live=True,
)

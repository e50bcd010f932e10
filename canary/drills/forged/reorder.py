"""Two records stand in the wrong order.

A producer sends several requests at once, and a broker appends the second before the first. Here the canary is killed
while it writes, so that its ledger may lack the last that it sent; then an ordinary producer appends the next two
probes of that dead producer, the later one first. That either of them is there is no fault; the order is.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.steps.canary import KillCanary, StartCanary
from canary.drills.steps.waiting import UntilAcked
from canary.drills.steps.writing import FORGED, Forge

_BEFORE = (UntilAcked(), KillCanary(), StartCanary(), UntilAcked())

DRILL = Drill(
    title="Two records stand in the wrong order",
    source="idempotent-producer (pipelining); jepsen-redpanda 3.5",
    steps=(*_BEFORE, Forge("swapped tail"), UntilAcked()),
    says=(Said("reorder", at=FORGED, severity="critical"),),
    echoes=frozenset(),
    control=Control(
        why="In the order in which it sent them, they may still arrive after its death.",
        steps=(*_BEFORE, Forge("tail"), UntilAcked()),
        may_say=frozenset(),
    ),
)

"""A transaction that nobody ends.

A producer of an application begins a transaction with a timeout of 15 minutes, writes one record to a partition, and
dies. Until the coordinator aborts it, no read_committed consumer is given anything behind that record, whoever wrote
it; lag grows, and no error is to be seen anywhere.

The canary says that the last stable offset stands still, and why. In the end the application is back, which aborts what
it had left open, and everything behind it is read.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.steps.waiting import UntilAcked, UntilSaid
from canary.drills.steps.writing import LeaveOpen

_BEFORE = UntilAcked()

DRILL = Drill(
    title="A transaction that nobody ends",
    source='jepsen-redpanda 3.7 ("a jar of applesauce"); KIP-664',
    steps=(
        _BEFORE,
        LeaveOpen(),
        UntilAcked(seen=False),
        UntilSaid("stalled"),
        LeaveOpen(commits=True, mark="ended"),
        UntilAcked(),
    ),
    says=(Said("stalled", within_s=75),),
    echoes=frozenset(),
    control=Control(
        why="The application commits.",
        steps=(_BEFORE, LeaveOpen(commits=True), UntilAcked()),
        may_say=frozenset(),
    ),
)

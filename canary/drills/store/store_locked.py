"""The store cannot be written to.

A backup or a forgotten transaction holds the lock of the canary's store for half a minute. Probing goes on, since the
ledger is enough for that; but whoever asks would be shown old numbers, so /readyz says within 10 s that they are. Once
the store is back, the counters hold all that was acknowledged meanwhile within 15 s, and nothing is said of a cluster
that did nothing.
"""

from canary.drills.drill import Drill
from canary.drills.steps.saying import NothingForgotten, UntilCounted, UntilNotReady, UntilReady
from canary.drills.steps.store import WhileStoreLocked
from canary.drills.steps.waiting import Pass, UntilAcked

DRILL = Drill(
    title="The canary's store is locked",
    source='CONTRACTS "Counters"; CONTRACTS "Silence"',
    steps=(
        UntilAcked(),
        WhileStoreLocked((UntilNotReady(10.0), Pass(15))),
        UntilCounted(within_s=15.0),
        UntilReady(),
        NothingForgotten(),
    ),
    says=(),
    echoes=frozenset(),
    uncontrolled="Nothing may be said of the cluster: the drill is its own control.",
)

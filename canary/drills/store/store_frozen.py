"""The database of the canary's store stops answering.

PostgreSQL is there, connections open, and nothing is answered: its machine swaps, or a network drops what goes to it.
A client that waits for ever would hang with it. Probing goes on, since the ledger is enough for that; /readyz says
within 15 s that nothing can be shown. Once the database goes on, the counters hold all that was acknowledged meanwhile
within 15 s, and nothing is said of a cluster that did nothing.
"""

from canary.drills.drill import Drill
from canary.drills.stage import Stage
from canary.drills.steps.saying import NothingForgotten, UntilCounted, UntilNotReady, UntilReady
from canary.drills.steps.store import WhileStoreFrozen
from canary.drills.steps.waiting import Pass, UntilAcked

DRILL = Drill(
    title="The canary's database answers nothing",
    source='CONTRACTS "Counters", "Silence"',
    stage=Stage(postgres=True),
    steps=(
        UntilAcked(),
        WhileStoreFrozen((UntilNotReady(15.0), Pass(20))),
        UntilCounted(within_s=15.0),
        UntilReady(),
        NothingForgotten(),
    ),
    says=(),
    echoes=frozenset(),
    uncontrolled="Nothing may be said of the cluster: the drill is its own control.",
)

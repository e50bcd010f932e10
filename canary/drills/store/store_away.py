"""The database of the canary's store is away.

PostgreSQL is restarted, fails over, or cannot be reached. Probing goes on, since the ledger is enough for that; /readyz
says within 10 s that nothing can be shown. Once the database is back, the counters hold all that was acknowledged
meanwhile within 15 s, and nothing is said of a cluster that did nothing.
"""

from canary.drills.drill import Drill
from canary.drills.stage import Stage
from canary.drills.steps.saying import NothingForgotten, UntilCounted, UntilNotReady, UntilReady
from canary.drills.steps.store import StartStore, StopStore
from canary.drills.steps.waiting import Pass, UntilAcked

DRILL = Drill(
    title="The canary's database is away",
    source='CONTRACTS "Counters", "Silence"',
    stage=Stage(postgres=True),
    steps=(
        UntilAcked(),
        StopStore(),
        UntilNotReady(10.0),
        Pass(10),
        StartStore(),
        UntilCounted(within_s=15.0),
        UntilReady(),
        NothingForgotten(),
    ),
    says=(),
    echoes=frozenset(),
    uncontrolled="Nothing may be said of the cluster: the drill is its own control.",
)

"""The database of the canary's store fails over, and forgets its last transactions.

PostgreSQL replicates asynchronously; its primary dies, and a replica takes its place without the transactions of the
last seconds, though all of them were confirmed. Among them is a violation that the canary has reported. It is filed
again, nothing is said to be forgotten, and no identity is given out twice.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import Stage
from canary.drills.steps.saying import NothingForgotten, UntilMetric, UntilReady
from canary.drills.steps.store import CopyStore, FailStoreOver, StartStore, StopStore
from canary.drills.steps.waiting import UntilAcked
from canary.drills.steps.writing import FORGED, Forge

_SAID = UntilMetric("canary_violations_open", at_least=1, labels={"kind": "corrupt"})
_AFTER = (UntilReady(20.0), UntilAcked(), NothingForgotten())

DRILL = Drill(
    title="The canary's database fails over",
    source='CONTRACTS "Silence"; PostgreSQL, "Log-Shipping Standby Servers" (asynchronous replication)',
    stage=Stage(postgres=True),
    steps=(UntilAcked(), CopyStore(), Forge("altered"), _SAID, FailStoreOver(), *_AFTER),
    says=(Said("corrupt", at=FORGED),),
    echoes=frozenset(),
    control=Control(
        why="A database that comes back with all that it had has forgotten nothing.",
        steps=(UntilAcked(), CopyStore(), StopStore(), StartStore(), *_AFTER),
        may_say=frozenset(),
    ),
)

"""The canary's store is put back from a backup.

What was filed since the backup is gone from the store, and the ledger knows that more had been shown. The canary says
so, with the time that is forgotten; its counters go on from the ledger, and no identity is given out twice.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.steps.canary import StartCanary, StopCanary
from canary.drills.steps.saying import NothingForgotten, UntilReady
from canary.drills.steps.store import CopyStore, PutStoreBack
from canary.drills.steps.waiting import Mark, UntilAcked

DRILL = Drill(
    title="The canary's store is put back",
    source='CONTRACTS "Silence" (whatever was wiped, restored or cloned); ARCHITECTURE decisions 1 and 4',
    steps=(
        UntilAcked(),
        CopyStore(),
        UntilAcked(50),
        StopCanary(),
        PutStoreBack(),
        Mark(),
        StartCanary(),
        UntilReady(),
        UntilAcked(),
        NothingForgotten(),
    ),
    says=(Said("memory-lost", severity="warning", within_s=15.0),),
    echoes=frozenset(),
    control=Control(
        why="A store that is put back as it was when the canary ended has lost nothing.",
        steps=(UntilAcked(), StopCanary(), CopyStore(), PutStoreBack(), StartCanary(), UntilAcked()),
        may_say=frozenset(),
    ),
)

"""The canary's ledger is gone.

A pod comes back on another node, with an empty disk: the store still tells what was shown, and the ledger, the canary's
memory of every single promise, is empty. At first it waits for 15 s: without the ledger it cannot know that its
predecessor is dead, and not alive elsewhere. It cannot judge what it no longer knows, and says which time it has
forgotten. It writes on under a new generation: no identity is given out twice.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.steps.canary import KillCanary, StartCanary, WipeLedger
from canary.drills.steps.saying import UntilReady
from canary.drills.steps.waiting import Mark, UntilAcked

DRILL = Drill(
    title="The canary's ledger is wiped",
    source='CONTRACTS "Silence" (memory that was lost); ANOMALIES Part II (memory-lost)',
    steps=(UntilAcked(), KillCanary(), WipeLedger(), Mark(), StartCanary(), UntilReady(), UntilAcked()),
    says=(Said("memory-lost", severity="warning", within_s=25.0),),
    echoes=frozenset(),
    control=Control(
        why="With the ledger on a disk that outlives the process, a kill makes it forget nothing.",
        steps=(UntilAcked(), KillCanary(), StartCanary(), UntilAcked()),
        may_say=frozenset(),
    ),
)

"""The canary is killed ten times, at any moment.

Out of memory, a node that is drained without mercy, a crash: everything of the canary is killed (-9) at random moments,
some before it has begun to probe. What it has shown as acknowledged it must know for ever: each counter is at least
what it was, the probe log has every one of these probes, and each is where it was acknowledged. No identity may be
given to two probes, for then a loss could hide behind the other one. And nothing is said of a cluster that did nothing.
"""

from canary.drills.drill import Drill
from canary.drills.steps.canary import KillCanaryAgainAndAgain
from canary.drills.steps.saying import NothingForgotten
from canary.drills.steps.waiting import UntilAcked

DRILL = Drill(
    title="The canary is killed again and again",
    source='CONTRACTS "Counters", "Silence"; ARCHITECTURE decision 1',
    steps=(UntilAcked(), KillCanaryAgainAndAgain(times=10), UntilAcked(), NothingForgotten()),
    says=(),
    echoes=frozenset(),
    uncontrolled="Nothing may be said: the drill is its own control.",
)

"""A second runner is started under the name of one that lives.

A deployment is scaled by mistake, or an old pod lingers: two runners of one name share a store. Both would write under
the same names and file their findings in the same places. The second one sees the first one's heartbeat move, says so
in one sentence, and ends within 40 s with status 4; the first goes on, and nothing is said of the cluster.
"""

from canary.drills.drill import Drill
from canary.drills.steps.canary import SecondRunner
from canary.drills.steps.saying import NothingForgotten
from canary.drills.steps.waiting import UntilAcked

DRILL = Drill(
    title="Two runners of one name",
    source='CONTRACTS "Two runners of one name"',
    steps=(UntilAcked(), SecondRunner(within_s=40.0, status=4), UntilAcked(), NothingForgotten()),
    says=(),
    echoes=frozenset(),
    uncontrolled="Nothing may be said of the cluster: the drill is its own control.",
)

"""New connections lead to another cluster.

A name, a load balancer or the address of a broker that was replaced leads to a cluster that is not the known one. That
lives, and the connections that clients have open stay: writes are acknowledged, and readers go on. Each client that
opens a connection from now on is in the other cluster, where topics of the same names are without its records.

The canary reads what it was promised with fresh clients, all of which meet the other cluster. It says which cluster
they met, and nothing of losses: what is not there was never promised there. When the address leads to the known
cluster again it probes on, and finds all that it was promised.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import Stage
from canary.drills.steps.network import Faults, NewConnectionsElsewhere, UntilHappened
from canary.drills.steps.waiting import Pass, UntilAcked, UntilSaid
from canary.lab import LoseAnswers

DRILL = Drill(
    title="New connections lead to another cluster",
    source="ARCHITECTURE decision 7",
    stage=Stage(lab={"proxied": True}, cluster={"watch": {"topics": []}}),
    steps=(UntilAcked(50), NewConnectionsElsewhere((UntilSaid("another-cluster"), Pass(20))), UntilAcked(50)),
    says=(Said("another-cluster", within_s=30, severity="critical"),),
    echoes=frozenset({"unseen"}),
    control=Control(
        why="Connections that break are opened again, and lead to the known cluster.",
        steps=(
            UntilAcked(50),
            Faults((LoseAnswers("Produce", count=3), LoseAnswers("Fetch", count=3))),
            UntilHappened(),
            UntilAcked(100),
        ),
        may_say=frozenset({"unseen"}),
    ),
)

"""Another cluster answers.

A load balancer, a DNS record or a restored machine leads to a cluster that is not the known one. Its topics have the
same names, and it acknowledges whatever it is sent. Every client of that address now talks to a cluster without its
data, and none is told.

The canary says that it is another cluster, and judges nothing that it says. When the known cluster answers again it
probes on, and finds all that it was promised.
"""

from canary.drills.drill import Drill, Said
from canary.drills.stage import Stage
from canary.drills.steps.network import AnotherCluster
from canary.drills.steps.waiting import Mark, Pass, UntilAcked, UntilSaid

DRILL = Drill(
    title="Another cluster answers",
    source="ARCHITECTURE decision 7",
    stage=Stage(cluster={"watch": {"topics": []}}),
    steps=(UntilAcked(20), AnotherCluster((Mark(), UntilSaid("another-cluster"), Pass(5))), UntilAcked(20)),
    says=(Said("another-cluster", within_s=15, severity="critical"),),
    echoes=frozenset({"unseen"}),
    uncontrolled="The known cluster stopped and started again is every other drill.",
)

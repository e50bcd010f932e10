"""All brokers are restarted, one after the other.

It is done every week: each broker is stopped in good order, started again, and the next one follows when all replicas
are in sync. Leaders move, connections break, requests are tried again.

Nothing is lost, and the canary says nothing.
"""

from canary.drills.drill import Drill
from canary.drills.stage import ORDERS, PROBES, Stage, Topic
from canary.drills.steps.brokers import Roll
from canary.drills.steps.waiting import UntilAcked
from canary.drills.steps.writing import Produce

DRILL = Drill(
    title="All brokers are restarted, one after the other",
    source="jepsen-redpanda 3.2 (a rolling restart is where duplicates came from)",
    stage=Stage(
        topics={PROBES: Topic(), ORDERS: Topic(replicas=((2, 3, 1),))},
        cluster={"watch": {"offsets": [ORDERS]}},
    ),
    steps=(Produce(), UntilAcked(20), Roll((1, 2, 3)), Produce(), UntilAcked(20)),
    says=(),
    echoes=frozenset(),
    uncontrolled="It is a control itself: nothing is lost, and nothing may be said.",
)

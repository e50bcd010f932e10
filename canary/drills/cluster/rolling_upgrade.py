"""A cluster is upgraded, one node after the other.

From Kafka 3.9 to 4.1: the controller, then each broker, is stopped in good order and started with the new version. For
a while old and new brokers replicate from each other, and clients talk to both.

Nothing is lost, and the canary says nothing.
"""

from canary.drills.drill import Drill
from canary.drills.stage import Stage
from canary.drills.steps.brokers import Roll
from canary.drills.steps.waiting import UntilAcked
from canary.lab import CONTROLLER

DRILL = Drill(
    title="A cluster is upgraded, one node after the other",
    source="Kafka's documentation, Upgrading to 4.1",
    stage=Stage(version="3.9.1"),
    steps=(UntilAcked(20), Roll((CONTROLLER, 1, 2, 3), version="4.1.0"), UntilAcked(20)),
    says=(),
    echoes=frozenset(),
    uncontrolled="It is a control itself: nothing is lost, and nothing may be said.",
)

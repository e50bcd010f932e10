"""Most controllers are dead.

Two of three controllers die. Brokers go on with what they know: leaders lead, and everything is acknowledged. Then the
leader dies as well, and nobody can elect another one: the metadata still names the dead one, and producers and
consumers of the partition are stopped until a second controller is back.

Nothing is lost. That nothing is acknowledged is an alert of its own, after five minutes; of durability there is nothing
to say.
"""

from canary.drills.drill import Drill
from canary.drills.stage import Stage
from canary.drills.steps.brokers import Kill, Start
from canary.drills.steps.waiting import Pass, UntilAcked, UntilIsr
from canary.lab import CONTROLLER

DRILL = Drill(
    title="Most controllers are dead",
    source="KIP-500; distributed-consensus-reloaded",
    stage=Stage(lab={"controllers": 3}, cluster={"watch": {"topics": []}}),
    steps=(
        UntilAcked(20),
        Kill((CONTROLLER, CONTROLLER + 1)),
        UntilAcked(20),
        Kill((1,)),
        Pass(20),
        Start((CONTROLLER,), wait=False),
        UntilIsr(frozenset({2, 3})),
        UntilAcked(20),
        Start((1, CONTROLLER + 1)),
        UntilIsr(frozenset({1, 2, 3})),
        UntilAcked(20),
    ),
    says=(),
    echoes=frozenset({"unseen"}),
    uncontrolled="It is a control itself: nothing is lost, and nothing may be said of losses.",
)

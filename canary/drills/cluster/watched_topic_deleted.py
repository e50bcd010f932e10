"""An application's topic is deleted.

A clean-up script has one name too many. The topic is gone, with all that was acknowledged in it; producers and
consumers get errors that they retry, and no broker logs more than a line.

The canary says it of each topic that the settings name under ``watch``. That a deletion was planned is announced to it
beforehand: then it is recorded, and rings no bell.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import ORDERS, PROBES, Stage, Topic
from canary.drills.steps.operating import Announce, DeleteTopic
from canary.drills.steps.waiting import Mark, UntilAcked, UntilSaid

_STEPS = (UntilAcked(20), DeleteTopic(ORDERS), Mark(), UntilSaid("watched-topic-gone"), UntilAcked(20))

DRILL = Drill(
    title="A watched topic is deleted",
    source="KIP-516 (topic ids); FIELD-NOTES",
    stage=Stage(topics={PROBES: Topic(), ORDERS: Topic()}, cluster={"watch": {"topics": [], "offsets": [ORDERS]}}),
    steps=_STEPS,
    says=(Said("watched-topic-gone", severity="critical", within_s=20),),
    echoes=frozenset(),
    control=Control(
        why="A deletion in a planned window is recorded, and rings no bell.",
        steps=(Announce("orders are moved to another cluster"), *_STEPS),
        may_say=frozenset(),
    ),
)

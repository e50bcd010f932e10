"""Transaction coordinators die.

Each broker coordinates some of the transactional ids. One after the other is killed (-9) and started again, while the
canary commits, aborts, is fenced and relays: some commits get no answer, and are asked for again at the next
coordinator. Each transaction is whole or not at all, and no promise is broken.

The canary has nothing to say.
"""

from canary.drills.drill import REPLICAS_MISSING, Drill
from canary.drills.stage import PROBES, TRANSACTIONS, Stage, Topic
from canary.drills.steps.brokers import Kill, Start
from canary.drills.steps.waiting import Pass, UntilAcked, UntilIsr

_ALL = frozenset({1, 2, 3})
_EACH = (Pass(4), UntilAcked(20, topic=TRANSACTIONS))
_BACK = UntilIsr(_ALL, topic=TRANSACTIONS)

DRILL = Drill(
    title="Transaction coordinators die",
    source="jepsen-redpanda 3.6 to 3.9; idempotent-producer (fault tolerance)",
    stage=Stage(
        topics={PROBES: Topic(), TRANSACTIONS: Topic(replicas=((1, 2, 3), (2, 3, 1)))},
        modes={
            "idempotent": {"interval": "100ms"},
            "transactional": {"interval": "100ms", "timeout": "5s"},
            "relay": {"timeout": "5s"},
            "fencing": {"interval": "2s", "timeout": "5s"},
        },
    ),
    steps=(
        UntilAcked(20, topic=TRANSACTIONS),
        *(step for node in (1, 2, 3) for step in (Kill((node,)), *_EACH, Start((node,)), _BACK)),
        UntilAcked(20, topic=TRANSACTIONS),
    ),
    says=(),
    echoes=REPLICAS_MISSING,
    uncontrolled="It is one itself: nothing may be said.",
)

"""A leader takes writes, and answers no fetches.

Probes are acknowledged, and no consumer is given any: a network device that drops large answers, a broker whose fetch
threads are stuck. Nothing is lost, and yet nobody gets what was promised. Here everything that clients fetch is held
back between them and the brokers, and all else passes. After a minute without progress the canary says that its readers
are stalled, and what they could read; when fetches are answered again it is over, and every probe is seen.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage
from canary.drills.steps.network import Faults, Heal
from canary.drills.steps.saying import NothingForgotten, UntilMetric, UntilOver
from canary.drills.steps.waiting import Mark, Pass, UntilAcked, UntilSaid
from canary.lab import Hold

_NO_FETCH = Faults((Hold("Fetch", until_api="DeleteTopics", count=10**9),))
"""No client deletes a topic: fetches are held until the network is healed."""
_UNSEEN = "canary_unseen_oldest_seconds"

DRILL = Drill(
    title="A leader answers no fetches",
    source="jepsen-redpanda 3.6; ANOMALIES Part II (stalled, unseen)",
    stage=Stage(lab={"proxied": True}),
    steps=(
        UntilAcked(),
        Mark(),
        _NO_FETCH,
        UntilAcked(50, seen=False),
        UntilMetric("canary_consumer_stalled", at_least=1.0, labels={"topic": PROBES}, within_s=20.0),
        UntilMetric(_UNSEEN, at_least=10.0, labels={"topic": PROBES}, within_s=20.0),
        UntilSaid("stalled"),
        Heal(),
        UntilAcked(),
        UntilOver("stalled"),
        NothingForgotten(),
    ),
    says=(Said("stalled", within_s=75.0, severity="warning"),),
    echoes=frozenset({"unseen"}),
    control=Control(
        why="For ten seconds fetches are held: late, and nothing else.",
        steps=(UntilAcked(), _NO_FETCH, Pass(10), Heal(), UntilAcked(), NothingForgotten()),
        may_say=frozenset(),
    ),
)

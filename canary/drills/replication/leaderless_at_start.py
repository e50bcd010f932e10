"""A partition has no leader when the canary starts.

Three brokers hold a partition each. The canary is stopped, broker 1 dies, and the canary is started again.

It probes the two partitions that have a leader at once, and names the one that has none: the partition is offline, and
its mode has had no write acknowledged there for a minute. When broker 1 is back that partition joins the others, and
nothing is lost.
"""

from canary.drills.drill import OUTAGE, Control, Drill, Said
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.brokers import Kill, Start
from canary.drills.steps.canary import StartCanary, StopCanary
from canary.drills.steps.saying import UntilMetric, UntilSentence
from canary.drills.steps.waiting import Mark, UntilAcked, UntilIsr, UntilLed

_SETTINGS = {"watch": {"topics": [], "under_replicated_after": "5s"}}

DRILL = Drill(
    title="A partition has no leader when the canary starts",
    source='call-me-maybe-kafka ("block and sound an alarm")',
    stage=Stage(
        topics={PROBES: Topic(replicas=((1,), (2,), (3,)), config={"min.insync.replicas": "1"})}, cluster=_SETTINGS
    ),
    steps=(
        UntilAcked(10),
        StopCanary(),
        Kill((1,)),
        UntilLed(None),
        StartCanary(),
        Mark(),
        UntilAcked(20, partition=1),
        UntilAcked(20, partition=2),
        UntilMetric("canary_mode_silent", at_least=1, labels={"mode": "idempotent"}, within_s=75),
        UntilSentence(f"no write of the mode idempotent to {PROBES}-0 since"),
        Start((1,)),
        UntilLed(1),
        UntilAcked(20),
        UntilMetric("canary_mode_silent", at_most=0, within_s=10),
    ),
    says=(Said("offline-partition", partitions=frozenset({(PROBES, 0)}), severity="critical", within_s=20),),
    echoes=OUTAGE,
    control=Control(
        why="Each partition has a replica on another broker, which leads it.",
        stage=Stage(
            topics={PROBES: Topic(replicas=((1, 2), (2, 3), (3, 2)), config={"min.insync.replicas": "1"})},
            cluster=_SETTINGS,
        ),
        steps=(
            UntilAcked(10),
            StopCanary(),
            Kill((1,)),
            UntilLed(2),
            StartCanary(),
            UntilAcked(20),
            UntilAcked(20, partition=1),
            UntilAcked(20, partition=2),
            Start((1,)),
            UntilIsr(frozenset({1, 2})),
        ),
    ),
)

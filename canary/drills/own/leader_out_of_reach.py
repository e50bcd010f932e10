"""The canary cannot reach the leader of a partition, and all else works.

A switch, a firewall or a security group keeps clients from one broker; the cluster sees nothing of it, and elects
nobody else. What that broker leads takes no writes from here, and nothing is lost. After a minute the canary says that
the partition takes no writes, once, however many probes it gives up meanwhile. It is over when the partition has
acknowledged a probe again, and not before.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.network import Faults, Heal
from canary.drills.steps.saying import NothingForgotten, UntilFound, UntilOver
from canary.drills.steps.waiting import Mark, Pass, UntilAcked
from canary.lab import Cut

_AWAY = Faults((Cut("client", 1),))

DRILL = Drill(
    title="A leader out of reach",
    source="strimzi-canary #219",
    stage=Stage(lab={"proxied": True}, topics={PROBES: Topic(replicas=((1, 2, 3), (2, 3, 1)))}),
    steps=(
        UntilAcked(),
        UntilAcked(partition=1),
        Mark(),
        _AWAY,
        Pass(40),
        UntilAcked(50, partition=1),
        UntilFound("unwritable", 1, within_s=60.0),
        Pass(20),
        UntilFound("unwritable", 1),
        Heal(),
        UntilOver("unwritable"),
        UntilAcked(),
        NothingForgotten(),
    ),
    says=(Said("unwritable", partitions=frozenset({(PROBES, 0)}), within_s=80.0, severity="critical"),),
    echoes=frozenset({"unseen", "stalled"}),
    control=Control(
        why="For ten seconds the leader is out of reach: probes are late, and nothing else.",
        steps=(UntilAcked(), _AWAY, Pass(10), Heal(), UntilAcked(), NothingForgotten()),
        may_say=frozenset({"unseen"}),
    ),
)

"""All disks are emptied.

A script that makes test clusters is run against the wrong one: every node is stopped, its disk emptied and formatted
again, with the cluster id that it had, and started. The cluster answers under its own name, takes writes, and holds
nothing of what it was ever given.

The canary says that the metadata has gone back, and what went with it. Disks that are emptied one after the other, each
when all replicas are in sync again, lose nothing.
"""

from canary.drills.drill import OUTAGE, REPLICAS_MISSING, Control, Drill, Said
from canary.drills.stage import ORDERS, PROBES, Stage, Topic
from canary.drills.steps.brokers import Kill, Start, Stop, Wipe
from canary.drills.steps.operating import ConfigureAgain
from canary.drills.steps.waiting import Mark, Pass, UntilAcked, UntilIsr, UntilSaid
from canary.lab import CONTROLLER

_BROKERS = (1, 2, 3)
_ALL = (*_BROKERS, CONTROLLER)
_LIVED = (UntilAcked(20), ConfigureAgain(500), UntilAcked(120))


def _anew(broker: int) -> tuple[Stop | Wipe | Start | UntilIsr, ...]:
    one = (broker,)
    return Stop(one), Wipe(one), Start(one), UntilIsr(frozenset(_BROKERS))


DRILL = Drill(
    title="All disks are emptied",
    source="KIP-595; ARCHITECTURE decision 7",
    stage=Stage(
        topics={PROBES: Topic(), ORDERS: Topic()},
        cluster={"watch": {"topics": [], "offsets": [ORDERS], "quorum": True}},
    ),
    steps=(
        *_LIVED,
        Kill(_ALL),
        Wipe(_ALL),
        Start((CONTROLLER,)),
        Start(_BROKERS),
        Mark(),
        UntilSaid("metadata-went-back"),
        UntilAcked(20),
    ),
    says=(
        Said("metadata-went-back", severity="critical", within_s=90),
        Said("promises-void", severity="critical", within_s=25),
        Said("watched-topic-gone", severity="critical", within_s=25),
    ),
    echoes=OUTAGE | {"topic-recreated"},
    loses=True,
    control=Control(
        why="Disks of brokers that are emptied one after the other are filled again from the others.",
        steps=(*_LIVED, *_anew(1), *_anew(2), *_anew(3), Mark(), Pass(70), UntilAcked(20)),
        may_say=REPLICAS_MISSING,
    ),
)

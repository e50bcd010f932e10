"""The controller's disk is emptied.

After a loss of power the one controller comes back with an empty disk. Somebody formats it again, with the cluster id
that the brokers have, and starts it again and again until they follow it: its epoch must not be below theirs. What it
has is the metadata of their cluster now, and names no topic. So they rename the logs that they hold to ``-stray``, and
delete them later; clients are told that there is no such topic, by the cluster that they have always known.

The canary says that the metadata has gone back, and what went with it. Where all come back with the disks that they
had, nothing is said.
"""

from canary.drills.drill import OUTAGE, Control, Drill, Said
from canary.drills.stage import ORDERS, PROBES, Stage, Topic
from canary.drills.steps.brokers import Kill, Start, Wipe
from canary.drills.steps.operating import ConfigureAgain
from canary.drills.steps.waiting import Mark, Pass, UntilAcked, UntilSaid
from canary.lab import CONTROLLER

_BROKERS = (1, 2, 3)
_CONTROLLER = (CONTROLLER,)
_LIVED = (UntilAcked(20), ConfigureAgain(500), UntilAcked(120), Kill((*_BROKERS, *_CONTROLLER)))
_AGAIN = (Pass(3), Kill(_CONTROLLER), Start(_CONTROLLER))  # brokers do not follow an epoch that is below their own
_BACK = (Start(_BROKERS), Mark())

DRILL = Drill(
    title="The controller's disk is emptied",
    source="KIP-595 (epochs, high watermark); KIP-500",
    stage=Stage(
        topics={PROBES: Topic(), ORDERS: Topic()},
        cluster={"watch": {"topics": [], "offsets": [ORDERS], "quorum": True}},
    ),
    steps=(
        *_LIVED,
        Wipe(_CONTROLLER),
        Start(_CONTROLLER),
        *_AGAIN,
        *_AGAIN,
        *_BACK,
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
        why="A controller that comes back with the disk that it had leads in a higher epoch, and has all metadata.",
        steps=(*_LIVED, Start(_CONTROLLER), *_BACK, Pass(70), UntilAcked(20)),
        may_say=OUTAGE,
    ),
)

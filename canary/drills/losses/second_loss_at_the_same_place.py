"""What was lost once is lost again, at the same offsets.

The brokers lose power, and the last records of a partition are gone. Somebody restores the service, resolves the
incident as a loss, and new records take the offsets of the old ones. Then the same happens again, and the log ends at
the same offset as the first time.

The canary says it a second time: the leader epoch tells the two cuts apart.
"""

from canary.drills.drill import OUTAGE, Control, Drill, Said
from canary.drills.stage import KNOWABLE, Stage
from canary.drills.steps.brokers import Kill, Start
from canary.drills.steps.logs import CutAt, NoteEnd
from canary.drills.steps.operating import ResolveAll
from canary.drills.steps.saying import UntilFound
from canary.drills.steps.step import Step
from canary.drills.steps.waiting import UntilAcked, UntilIsr, UntilReadable

_ALL = (1, 2, 3)
_END = "the end"


_AGAIN = "the second time"


def _power_cut(mark: str = KNOWABLE) -> tuple[Step, ...]:
    over = UntilIsr(frozenset(_ALL)), UntilReadable(mark=mark), UntilAcked(30)
    return (Kill(_ALL), CutAt(_ALL, _END), Start(_ALL), *over)


_STEPS = (UntilAcked(30), NoteEnd(_END), UntilAcked(30), *_power_cut())
_STAGE = Stage(cluster={"watch": {"topics": []}})

DRILL = Drill(
    title="A second loss at the same place",
    source="why-fsync",
    stage=_STAGE,
    steps=(*_STEPS, UntilFound("truncation", 1), ResolveAll("lost"), *_power_cut(_AGAIN), UntilFound("truncation", 2)),
    says=(
        Said("lost-write", at="gone"),
        Said("truncation", severity="critical"),
        Said("truncation", severity="critical", since=_AGAIN, after="the resolution"),
    ),
    echoes=OUTAGE | {"inconsistent-offsets", "unclean-election"},
    control=Control(
        why="With flush.messages=1 each record is on disk before it is acknowledged: neither power cut loses any.",
        stage=_STAGE.with_topic_config(flush_messages="1"),
        steps=(*_STEPS, *_power_cut(_AGAIN)),
        may_say=OUTAGE,
    ),
)

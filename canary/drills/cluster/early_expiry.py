"""Records go before their time.

A script calls DeleteRecords on the wrong topic, or a broker's clock is a month ahead: the log begins later than it
should, and the records before that are gone. No client gets an error: consumers that had read them do not miss them,
and those that had not are never told.

The canary says that promised records are gone although retention does not explain it. Deletions that were announced as
planned are recorded, and ring no bell.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage
from canary.drills.steps.operating import Announce, DeleteRecords
from canary.drills.steps.waiting import UntilAcked

DRILL = Drill(
    title="Records go before their time",
    source="KIP-107 (DeleteRecords)",
    stage=Stage(cluster={"watch": {"topics": []}}),
    steps=(UntilAcked(30), DeleteRecords(), UntilAcked(20)),
    says=(
        Said(
            "early-expiry",
            at="deleted",
            how="first",
            partitions=frozenset({(PROBES, 0)}),
            within_s=15,
            severity="critical",
        ),
    ),
    echoes=frozenset(),
    loses=True,
    control=Control(
        why="Deletions in a planned window are recorded, and ring no bell.",
        steps=(Announce("old records are deleted"), UntilAcked(30), DeleteRecords(), UntilAcked(20)),
        may_say=frozenset(),
        loses=True,
    ),
)

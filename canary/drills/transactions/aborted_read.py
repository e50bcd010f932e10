"""Aborted records are shown.

Beside each segment of a log, a broker keeps a file that lists its aborted transactions (.txnindex); a read_committed
consumer leaves out what the broker lists. All brokers are stopped in good order, these files of the topic's partitions
are deleted on all of them (a backup that forgot them, a file system check), and the brokers are started again. After a
clean stop Kafka reads no log again, and does not miss the files: whoever reads the topic now is given records of
transactions that were aborted.

The canary says which aborted records are shown, when it reads the topic again.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.rig.direct import SHOWN
from canary.drills.stage import PROBES, TRANSACTIONS, Stage, Topic
from canary.drills.steps.brokers import Start, Stop
from canary.drills.steps.logs import Read, RemoveFiles
from canary.drills.steps.waiting import UntilAcked, UntilReadable

_STAGE = Stage(
    topics={PROBES: Topic(), TRANSACTIONS: Topic(replicas=((1, 2, 3), (2, 3, 1)))},
    modes={"transactional": {"interval": "100ms", "abort_percent": 30}},
    settings={"runner": {"name": "drill", "segment_age": "5s", "scrub_rate": "10MB"}},
)
"""A change of leader has the log read again up to the last promise; what was aborted behind it is for the scrubber."""
_BEFORE = (UntilAcked(40, topic=TRANSACTIONS), Stop((1, 2, 3)))
_AFTER = (
    Start((3,)),
    Start((1, 2)),
    UntilReadable((0, 1), TRANSACTIONS),
    Read(TRANSACTIONS),
    UntilAcked(10, topic=TRANSACTIONS),
)
"""The last marker may have been on one broker alone; those that are given it now list its transaction again."""

DRILL = Drill(
    title="Aborted records are shown",
    source="jepsen-redpanda 1.2 and 3.9; ANOMALIES Part II (G1a)",
    stage=_STAGE,
    steps=(*_BEFORE, RemoveFiles((1, 2, 3), ".txnindex", TRANSACTIONS, (0, 1)), *_AFTER),
    says=(Said("G1a", at=SHOWN),),
    control=Control(why="Brokers that are stopped and started in good order keep the files.", steps=_BEFORE + _AFTER),
    short=True,
)

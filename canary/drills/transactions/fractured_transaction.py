"""A committed transaction, in part.

All brokers lose power at once, and one partition loses on every replica what was not flushed: the last transactions
that wrote to it, with their markers. The other partitions keep theirs, and the coordinator keeps the decisions. After
the restart the transactions are committed in one partition and have never been in the other.

The canary says which committed writes are gone, and of each transaction that it is not whole.
"""

from canary.drills.drill import REPLICAS_MISSING, Control, Drill, Said
from canary.drills.rig.direct import GONE
from canary.drills.stage import PROBES, TRANSACTIONS, Stage, Topic
from canary.drills.steps.brokers import Kill, Start
from canary.drills.steps.logs import CutAt, NoteRest
from canary.drills.steps.waiting import UntilAcked, UntilReadable

_STAGE = Stage(
    topics={PROBES: Topic(), TRANSACTIONS: Topic(replicas=((1, 2, 3), (2, 3, 1)))},
    modes={"transactional": {"interval": "100ms"}},
)

DRILL = Drill(
    title="A committed transaction, in part",
    source="why-fsync; jepsen-redpanda 1.2 (atomicity)",
    stage=_STAGE,
    steps=(
        UntilAcked(40, 1, TRANSACTIONS),
        NoteRest(TRANSACTIONS, 1),
        UntilAcked(20, 1, TRANSACTIONS),
        Kill((1, 2, 3)),
        CutAt((1, 2, 3)),
        Start((1, 2, 3)),
        UntilReadable((0, 1), TRANSACTIONS),
        UntilAcked(20, 1, TRANSACTIONS),
    ),
    says=(
        Said("fractured-transaction", at=GONE, how="within"),  # one of its lost writes, whichever is found first
        Said("lost-write", at=GONE),
    ),
    echoes=REPLICAS_MISSING | {"offline-partition", "truncation", "inconsistent-offsets"},
    control=Control(
        why="With flush.messages=1 each record is on disk before it is acknowledged.",
        stage=_STAGE.with_topic_config(flush_messages="1"),
        may_say=REPLICAS_MISSING | {"offline-partition"},
    ),
    short=True,
)

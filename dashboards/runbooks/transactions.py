"""Runbooks of transactions that show too early, are aborted, fenced or never end; and of late readers."""

from typing import Final

from dashboards.runbooks import commands as run
from dashboards.runbooks import shared
from dashboards.runbooks.runbook import Runbook, Step

_WHO: Final = Step(
    "See which producers have a transaction open in the partition (CurrentTransactionStartOffset), and what the "
    "coordinator says of the transactional id: its state, since when, and its timeout.",
    run.PRODUCERS,
    run.TRANSACTIONS,
    run.TRANSACTION,
)
_VERSION: Final = Step(
    "See which version of transactions is in force. 2 (KIP-890, Kafka 4) ends a class of hanging and of torn "
    "transactions: it checks each write against the coordinator, with a new epoch for each transaction.",
    run.FEATURES,
)
_MARKERS: Final = Step(
    "Look for the control batches of that producer behind the record: endTxnMarker: COMMIT or ABORT, and its epoch.",
    run.DUMP,
    run.PRODUCERS,
)
_END_IT: Final = Step(
    "First see whether the application still lives and means to commit: then restart it or let it end by itself; its "
    "own initTransactions() aborts what it left open. A transaction that its coordinator knows as Ongoing ends by its "
    "timeout (transaction.timeout.ms), or at once with forceTerminateTransaction (tried on Kafka 4.1), which aborts it "
    "and fences its producer: the application must be able to write it again.",
    run.TERMINATE,
)
_ABORT_IT: Final = Step(
    "One that hangs (find-hanging lists it, the coordinator does not know it as Ongoing) never ends by itself. abort "
    "writes the marker into this one partition; offset is its CurrentTransactionStartOffset. Never use it on one that "
    "its coordinator still has: it would be aborted here and committed elsewhere.",
    run.HANGING,
    run.ABORT,
)

ISOLATION: Final = Runbook(
    title="read_committed showed what was not committed",
    kinds=("G1a", "precommitted-read"),
    means=(
        Step(
            "Readers at read_committed wait for the last stable offset and leave aborted records out. Here they were "
            "given a record before its commit, or one whose transaction was aborted."
        ),
    ),
    real=(
        shared.ON_THE_PAGES,
        Step("Read the record at both isolation levels (add --isolation-level read_committed).", run.READ),
        _MARKERS,
        Step(
            "An outcome that was not definite proves nothing: a commit that timed out may have gone through. The "
            "evidence names the client's error."
        ),
    ),
    stop=(
        Step("Pause consumers that act on what they read from transactional topics (payments, exactly-once sinks)."),
        Step("See whether the consumer's isolation.level is what you think, and whether it reads from a follower."),
    ),
    extent=(_WHO, shared.EXPOSED, _VERSION, shared.READ_EVERYTHING),
    recover=(
        Step("Undo downstream what came of aborted records; their offsets are in the violation."),
        Step("Expect the writer to have written it again: consumers may have both."),
    ),
    tell=(
        Step("The owners of the consumers: which offsets were never valid. The owner of the transactional id."),
        shared.EXPORT,
        shared.CLOSE_LOST,
    ),
)
ZOMBIE: Final = Runbook(
    title="A fenced producer wrote",
    kinds=("zombie-write",),
    means=(
        Step(
            "A newer instance with the same transactional.id had begun, and a write of the older one was appended and "
            "became visible. Two writers may have done the same work."
        ),
    ),
    real=(shared.ON_THE_PAGES, _MARKERS, _WHO),
    stop=(
        Step("Find the older instance (its host and client id are in the brokers' request log) and end it."),
        Step("See that each instance has a transactional.id of its own, and that no two deployments share one."),
    ),
    extent=(shared.EXPOSED, _VERSION, shared.READ_EVERYTHING),
    recover=(
        Step("Drop downstream what the older instance wrote after it was fenced: its offsets are in the evidence."),
    ),
    tell=(
        Step("The owner of the transactional id, and of the consumers of its topics: what may have been done twice."),
        shared.EXPORT,
        shared.CLOSE,
    ),
)
HANGING: Final = Runbook(
    title="A transaction does not end",
    kinds=("hanging-transaction",),
    means=(
        Step(
            "Readers at read_committed stand still in front of its first record, in every partition that it wrote to, "
            "and the log cannot be compacted beyond it. Nothing is lost; producers go on."
        ),
    ),
    real=(
        shared.ON_THE_PAGES,
        _WHO,
        Step("Search for it; one is called hanging only when it is older than any allowed timeout.", run.HANGING),
    ),
    stop=(_END_IT, _ABORT_IT),
    extent=(
        Step("Search each broker, and see which groups wait.", run.HANGING_BROKER, run.GROUPS),
        _VERSION,
    ),
    recover=(
        Step(
            "See that readers go on: the lag falls, and the partition has no open transaction.",
            run.GROUP,
            run.PRODUCERS,
        ),
        Step("The application writes again what was aborted, unless it did so already."),
    ),
    tell=(
        Step("The owner of the transactional id: it was aborted, at which time and offsets. The consumers: late."),
        shared.CLOSE,
    ),
)
LATE: Final = Runbook(
    title="Acknowledged messages are not readable",
    kinds=("unseen", "stalled"),
    alerts=("CanaryUnseenGrowing",),
    means=(
        Step(
            "Late is not lost: the record may be in the log, behind a transaction that does not end, a leader that "
            "answers no fetches, or a high watermark that waits for in-sync replicas."
        ),
    ),
    real=(
        Step(
            "See which consumers are late: one, or all; at read_committed only, or at both levels.",
            run.LATE,
            run.PARTITIONS,
        ),
        Step("Read the place yourself: with it you know whether the record is there.", run.READ, run.END_OFFSET),
    ),
    stop=(
        shared.TOUCH_NOTHING,
        Step("If only read_committed is late, a transaction is open there:", run.PRODUCERS, run.HANGING),
        _END_IT,
        _ABORT_IT,
        Step(
            "If all are late, see whether the partition has a leader and enough in-sync replicas: below "
            "min.insync.replicas the high watermark stands still. Bring followers back; do not lower the setting.",
            run.DESCRIBE,
            run.UNDER_MIN_ISR,
        ),
    ),
    extent=(
        Step("See which groups of production wait at the same partitions, and how far behind they are.", run.GROUPS),
        Step("See whether one leader has all of the late partitions.", run.UNACKNOWLEDGED, run.TOPOLOGY),
    ),
    recover=(
        Step("When it goes on, the hump in unseen probes comes down by itself. What stays unread is a loss.", run.LATE),
        shared.READ_EVERYTHING,
    ),
    tell=(
        Step("The owners of late consumers: since when, and that nothing is known to be lost so far."),
        shared.CLOSE,
    ),
)

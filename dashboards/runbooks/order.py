"""Runbooks of copies and of order: nothing is gone, and consumers are misled all the same."""

from typing import Final

from dashboards.runbooks import commands as run
from dashboards.runbooks import shared
from dashboards.runbooks.runbook import Runbook, Step

_BOTH_PLACES: Final = Step(
    "Look at both places in the log. The same producer id, epoch and sequence twice: the broker failed to recognise a "
    "retry, or to keep the order. Another producer id or epoch: the client sent it again as somebody else.",
    run.READ,
    run.DUMP,
    run.PRODUCERS,
)
_FIRST_CAUSES: Final = Step(
    "See whether the log was cut or had two leaders between the two places: then that is the cause, and its runbook "
    "(CanaryTruncation, CanaryInconsistentOffsets) comes first.",
    run.TOPOLOGY,
    run.EPOCHS,
)
_NO_DELETING: Final = Step(
    "Do not try to delete a record: kafka-delete-records.sh deletes everything before an offset."
)
_VERSIONS: Final = Step(
    "See which versions of brokers and clients are involved, and look the fault up.", run.ANSWERING, run.FEATURES
)

COPIES: Final = Runbook(
    title="One message is in the log twice",
    kinds=("duplicate",),
    means=(
        Step(
            "With acks=all and idempotence brokers refuse a copy by producer id, epoch and sequence. A copy means that "
            "this failed, or that the client took a new epoch and sent again (then it is a warning)."
        ),
    ),
    real=(shared.ON_THE_PAGES, _BOTH_PLACES, _FIRST_CAUSES),
    stop=(
        Step("Nothing is lost. Pause consumers for which twice is worse than late (payments, counters)."),
        _NO_DELETING,
    ),
    extent=(shared.EXPOSED, _VERSIONS, shared.READ_EVERYTHING),
    recover=(
        Step("Let consumers drop what they have processed: by the message's own key or id, not by offset."),
        Step(
            "Set enable.idempotence=true and acks=all where producers do not have it; renew clients with known faults."
        ),
    ),
    tell=(
        Step("The owners of consumers of the exposed topics: what may have been processed twice, and since when."),
        shared.EXPORT,
        shared.CLOSE,
    ),
)
ORDER: Final = Runbook(
    title="Messages are in another order than they were sent",
    kinds=("reorder", "nonmonotonic-send", "int-nonmonotonic-send"),
    means=(
        Step(
            "One producer's messages to one partition are in an order that it did not write: a retry overtook another "
            "batch, or the log was cut and filled again."
        ),
    ),
    real=(shared.ON_THE_PAGES, _BOTH_PLACES, _FIRST_CAUSES),
    stop=(
        Step("Nothing is lost. Pause consumers that rely on order (change data capture, state machines)."),
        Step(
            "Where producers have no idempotence and several requests in flight, order is not promised: set "
            "enable.idempotence=true."
        ),
        _NO_DELETING,
    ),
    extent=(shared.EXPOSED, _VERSIONS, shared.READ_EVERYTHING),
    recover=(Step("Rebuild what was derived in the wrong order from its source; the log itself stays as it is."),),
    tell=(
        Step("The owners of consumers of the exposed topics: between which offsets the order is not the writer's."),
        shared.EXPORT,
        shared.CLOSE,
    ),
)
READING: Final = Runbook(
    title="A consumer was given something else than the log holds",
    kinds=("poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll"),
    means=(
        Step(
            "The log may be in order, and the way to this consumer is not: a position that was reset, a follower that "
            "answered behind or ahead, a client that lost its place; or the log was rewritten under it."
        ),
    ),
    real=(
        shared.ON_THE_PAGES,
        Step(
            "Read the place again. If the skipped records are not there, they are lost: do as in CanaryLostWrite.",
            run.READ,
            run.PROBE_LOG,
        ),
        _FIRST_CAUSES,
        Step("A subscribed consumer may do this across a rebalance: see its group.", run.GROUP, run.GROUP_MEMBERS),
    ),
    stop=(
        Step(
            "If consumers read from followers (client.rack, replica.selector.class), let them read from leaders: empty "
            "their client.rack. If one leader is concerned only, see whether it lags or was cut off.",
            run.DESCRIBE,
            run.LOG_DIRS,
        ),
    ),
    extent=(
        Step("See which groups read those partitions, and whether their offsets went on as they should.", run.GROUPS),
        shared.EXPOSED,
        _VERSIONS,
    ),
    recover=(shared.RESET_GROUPS, Step("Renew or update the client where only one kind of client is concerned.")),
    tell=(
        Step("The owners of those consumers: which offsets they never got, or got twice."),
        shared.EXPORT,
        shared.CLOSE,
    ),
)
INTERLEAVED: Final = Runbook(
    title="Transactions are mixed",
    kinds=("int-send-skip", "G0", "G1c"),
    means=(Step("Kafka makes the writes of a transaction visible together; it does not isolate them from others'."),),
    real=(
        Step(
            "Read the edges of a cycle: if each is a read (wr) it is a violation of what read_committed promises; with "
            "write order (ww) in it, interleaving explains it.",
            run.VIOLATION,
        ),
    ),
    stop=(Step("Nothing to stop, unless it is a cycle of reads alone: then pause consumers that act on them."),),
    extent=(Step("Check the history by itself, with and without --ww-deps.", run.EXPORT, run.CHECK),),
    recover=(Step("Let one producer write what must not be interleaved, or put it into one message."),),
    tell=(Step("The owners of the application, if it relies on more than Kafka promises."), shared.CLOSE),
)

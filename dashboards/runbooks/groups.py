"""Runbooks of consumer groups: one that stands still, and one whose offsets went back or away."""

from typing import Final

from dashboards.runbooks import commands as run
from dashboards.runbooks import shared
from dashboards.runbooks.runbook import Runbook, Step

_NOW: Final = Step(
    "See the group: its members, state and coordinator, committed offsets and lag.", run.GROUP, run.GROUP_MEMBERS
)

STUCK: Final = Runbook(
    title="A group stands still",
    kinds=("group-stuck",),
    means=(
        Step(
            "There are messages behind the committed offset, and it does not move: the consumer fails at one message "
            "again and again, is dead or rebalances without end, or waits behind a transaction that does not end."
        ),
    ),
    real=(shared.ON_THE_PAGES, _NOW),
    stop=(
        Step("Look at the message at the committed offset: one that its consumer cannot digest?", run.READ),
        Step(
            "See whether a transaction is open there: then do as in CanaryHangingTransaction.",
            run.PRODUCERS,
            run.HANGING,
        ),
        Step(
            "Do not reset the offset to get it going before you know what would be skipped. If messages may expire "
            "before they are read, keep them.",
            run.FIRST_OFFSET,
            run.KEEP_ALL_RECORDS,
        ),
    ),
    extent=(
        Step("See whether other partitions and groups stand still, too.", run.GROUPS),
        Step("See whether the partition is well.", run.DESCRIBE, run.END_OFFSET),
    ),
    recover=(
        Step(
            "Repair and restart the consumer. To skip one message, stop the members and set the offset behind it.",
            run.RESET_PLAN,
            run.RESET,
        ),
        Step("Put the retention back when the group has caught up.", run.SETTINGS),
    ),
    tell=(
        Step("The owner of the group: since when, at which offset, and what was skipped if anything was."),
        shared.CLOSE,
    ),
)
MOVED: Final = Runbook(
    title="A group's committed offsets went back, or are gone",
    kinds=("committed-offset-regression", "group-reset", "group-offsets-expired"),
    means=(
        Step(
            "From there the group reads again what it has processed, or (with auto.offset.reset=latest) skips what it "
            "has not. Somebody reset it; it was empty for longer than offsets.retention.minutes (a week by default); "
            "the log was cut; or the offsets topic lost writes."
        ),
    ),
    real=(shared.ON_THE_PAGES, _NOW, Step("Ask who resets: kafka-consumer-groups.sh, a deployment, seekToBeginning.")),
    stop=(
        Step("If reading again does harm, stop the group's members now: a group can only be reset while it is empty."),
        Step("Note the offsets of the violation (from, to): they are the only record of where the group was."),
    ),
    extent=(
        Step(
            "See whether other groups went back at the same time: then it is the offsets topic or its coordinator.",
            run.GROUPS,
        ),
        Step(
            "See whether the partition itself was cut: then do as in CanaryTruncation.",
            run.FIRST_OFFSET,
            run.END_OFFSET,
        ),
        Step("See whether the internal topics are well, and their settings safe.", run.UNDER_REPLICATED, run.AUDIT),
    ),
    recover=(
        Step("Set the offset to where the group was: the plan first, then execute it.", run.RESET_PLAN, run.RESET),
        Step(
            "Set auto.offset.reset=none where neither reading again nor skipping is acceptable: then it stops and says "
            "so."
        ),
        Step("Raise offsets.retention.minutes above the longest time that a group may be stopped."),
    ),
    tell=(Step("The owner of the group: from where to where, what is processed twice or skipped."), shared.CLOSE),
)
UNKNOWN: Final = Runbook(
    title="What applications do is not known",
    alerts=("CanaryGroupsUnknown", "CanaryTransactionsUnknown", "CanaryReplicasUnknown"),
    means=(
        Step(
            "A stuck group, a hanging transaction or a replica that differs may be there: of what is not answered "
            "nothing can be said."
        ),
    ),
    real=(shared.FIRES, Step("See which part of the runner fails, and why.", run.FAILING, run.SUMMARY)),
    stop=(
        Step(
            "Give the canary the rights that watch.groups, watch.transactions and watch.replicas need: Describe on the "
            "groups, Describe and Read on the topics (docs/acl.md).",
            run.CONFIG_CHECK,
        ),
        Step(
            "Bring replicas back that are not in sync: only those that are in sync are compared.", run.UNDER_REPLICATED
        ),
    ),
    extent=(
        Step("See whether the coordinators answer others: then it is the canary alone.", run.GROUPS, run.ANSWERING),
    ),
    recover=(Step("See that it is answered again; what moved meanwhile is judged from then on.", run.FAILING),),
    tell=(Step("The owners of the groups that are watched: since when nothing is known of them."),),
)

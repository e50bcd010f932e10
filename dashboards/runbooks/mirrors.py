"""Runbooks of topics that MirrorMaker 2 copies from another cluster."""

from typing import Final

from dashboards.runbooks import commands as run
from dashboards.runbooks import shared
from dashboards.runbooks.runbook import Runbook, Step

_SEEN: Final = Step("See the mirrored topic as the canary knows it, by partition and group.", run.MIRRORS)
_WORKER: Final = Step(
    "See MirrorMaker 2 itself: do its processes run, are its tasks RUNNING (GET /connectors/NAME/status where it runs "
    "in Kafka Connect), what does its log say?"
)

GAP: Final = Runbook(
    title="Records are missing in a mirrored topic",
    kinds=("mirror-gap",),
    means=(
        Step(
            "MirrorMaker 2 keeps the order of a partition: what it went past it does not copy later. Its offsets were "
            "set forward, the source's retention overtook it, or records were lost in this cluster after it had "
            "written them."
        ),
    ),
    real=(shared.ON_THE_PAGES, _SEEN, _WORKER),
    stop=(
        Step(
            "Keep what is missing in the source: raise the retention of the topic there before anything else. The "
            "violation's offsets are the source's."
        ),
        Step("Do not fail over to this cluster while it lacks them."),
    ),
    extent=(
        Step(
            "The gap lies between the mirror's offsets in the evidence. Topics of applications that the same "
            "MirrorMaker 2 copies may have one at the same time: compare their offsets by the time of the gap.",
            run.FIRST_OFFSET,
            run.END_OFFSET,
        ),
        Step("See whether this cluster lost records of the mirrored topic itself.", run.DESCRIBE, run.UNDER_REPLICATED),
    ),
    recover=(
        Step(
            "While the source retains them: stop MirrorMaker 2, set the offsets of its MirrorSourceConnector back to "
            "before the first one that is missing (PATCH /connectors/NAME/offsets, KIP-875), and start it. It copies "
            "everything from there again, so consumers of the mirrored topic are given it twice.",
        ),
        Step("The violation is resolved by itself once all of its records have arrived.", run.VIOLATION),
    ),
    tell=(Step("The owners of the mirrored topics: which time of the source is missing there."), shared.CLOSE),
)
SKIPS: Final = Runbook(
    title="A failover would skip records",
    kinds=("mirror-offset-skips",),
    means=(
        Step(
            "MirrorMaker 2 translates the offsets of groups for a failover. This one lies behind records that the "
            "group has not processed: the mirrored topic was made anew, or the offsets were set by hand."
        ),
    ),
    real=(shared.ON_THE_PAGES, _SEEN),
    stop=(Step("Do not let the group begin in this cluster at the translated offset."),),
    extent=(Step("See which other groups have the same, and which were synchronized here.", run.GROUPS),),
    recover=(
        Step(
            "Put the group to a smaller offset here, before it starts: the plan first, then execute it.",
            run.RESET_PLAN,
            run.RESET,
        ),
        Step(
            "Restart MirrorMaker 2, or delete its topics of offset-syncs and checkpoints if the mirrored topic was "
            "made anew: it writes them again."
        ),
    ),
    tell=(Step("The owner of the group: which records would have been skipped."), shared.CLOSE),
)
COPIES: Final = Runbook(
    title="Records are in a mirrored topic again",
    kinds=("mirror-copies",),
    means=(Step("MirrorMaker 2 copies at least once: after a restart it copies again what it had not committed."),),
    real=(shared.ON_THE_PAGES, _SEEN, _WORKER),
    stop=(Step("If processing twice does harm, stop the consumers of the mirrored topic until it has caught up."),),
    extent=(Step("The evidence has the offsets of the copies here, and those in the source."),),
    recover=(
        Step("Nothing is to be repaired. To avoid it: exactly.once.source.support (KIP-618), and orderly stops."),
    ),
    tell=(Step("The owners of consumers that must not process twice."), shared.CLOSE),
)
BEHIND: Final = Runbook(
    title="A mirror is behind, or not seen",
    alerts=("CanaryMirrorBehind", "CanaryMirrorUnknown"),
    means=(
        Step("What is not in this cluster yet is lost if the source is lost now; if it is unknown, so is how much."),
    ),
    real=(shared.FIRES, _SEEN, Step("See how far it is behind, and since when.", run.RECOVERY_POINT, run.FAILING)),
    stop=(
        _WORKER,
        Step("Raise the retention of the source's topics if MirrorMaker 2 will not be back before they expire."),
        Step(
            "Unknown: give the canary the right to Read the topic in the source, and here the mirrored topic and "
            "MirrorMaker 2's checkpoints (docs/acl.md).",
            run.CONFIG_CHECK,
        ),
    ),
    extent=(
        Step("See whether the cluster itself takes writes.", run.ACKED_SHARE, run.UNDER_MIN_ISR),
        Step("See whether all partitions are behind (the link, the worker) or some (a task, a leader).", run.MIRRORS),
    ),
    recover=(
        Step("Start the worker or its tasks; more tasks.max if it runs and does not keep up.", run.RECOVERY_POINT),
    ),
    tell=(Step("Who decides about a failover: how much would be lost by one now."),),
)

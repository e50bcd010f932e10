"""Runbooks of a cluster that is slow, or takes no writes, in part or as a whole, and of missed objectives."""

from typing import Final

from dashboards.runbooks import commands as run
from dashboards.runbooks import shared
from dashboards.runbooks.runbook import Runbook, Step

_WHO: Final = Step(
    "See whom it concerns: one partition, one leader, one rack, or all; and whether other clients have the same "
    "trouble.",
    run.UNACKNOWLEDGED,
    run.ACKED_SHARE,
    run.PARTITIONS,
)
_ANSWERS: Final = Step(
    "See which brokers answer, and whether there is a controller.", run.ANSWERING, run.QUORUM, run.QUORUM_LAG
)
_REPLICAS: Final = Step(
    "See whether partitions lack a leader or in-sync replicas: then their runbooks come first (CanaryOfflinePartition, "
    "CanaryIsrOfOne).",
    run.UNAVAILABLE,
    run.UNDER_MIN_ISR,
)
_MACHINE: Final = Step(
    "Look at that broker's machine: disks, kernel, memory, and the broker's own log; RequestQueueTimeMs, LocalTimeMs "
    "and RemoteTimeMs of its metric RequestMetrics say where a request waits (threads, disk, followers).",
    run.DISKS,
    run.KERNEL,
)
_LEAD_ELSEWHERE: Final = Step(
    "To take load off a sick broker let others lead. See first that no partition of it is at min.insync.replicas or "
    "below; then stop it in good order (SIGTERM: it hands its leaderships over), or put another replica first and "
    "elect it. Never stop the last replica in sync, and do not kill -9 a broker that still answers.",
    run.AT_MIN_ISR,
    run.UNDER_MIN_ISR,
    run.ELECT_PREFERRED,
)
_QUOTAS: Final = Step(
    "See whether it is about the canary alone: rights (ACLs), quotas, certificates, the way there. Its log names the "
    "client's error.",
    run.SMOKE,
)
_DONE: Final = Step(
    "See that acknowledgements come again, and that nothing was lost meanwhile.", run.ACKED_SHARE, run.SUMMARY
)

UNWRITABLE: Final = Runbook(
    title="Writes are not acknowledged",
    kinds=("unwritable",),
    alerts=(
        "CanaryNothingAcknowledged",
        "CanaryLeaderUnwritable",
        "CanaryPartitionUnwritable",
        "CanaryBrokerUnreachable",
        "CanaryRackUnwritable",
    ),
    means=(
        Step(
            "An outage, not a loss: what was not acknowledged was not promised. Producers buffer, time out, and may "
            "give up; what they sent without an answer may be in the log or not."
        ),
    ),
    real=(shared.FIRES, _WHO, _ANSWERS, _QUOTAS),
    stop=(
        _REPLICAS,
        Step(
            "Do not lower min.insync.replicas, do not elect uncleanly and do not recreate topics to get writes going: "
            "each makes a loss out of an outage."
        ),
        _LEAD_ELSEWHERE,
    ),
    extent=(
        _MACHINE,
        Step("See what changed before: brokers that came and went, reassignments.", run.BROKERS, run.REASSIGNMENTS),
        Step("See which partitions of production have the same leader: theirs are refused, too.", run.LED_BY),
    ),
    recover=(
        Step("Start what is down; wait for the ISR; give leaderships back.", run.UNDER_REPLICATED, run.ELECT_PREFERRED),
        _DONE,
    ),
    tell=(
        Step("The owners of producers: since when and to which partitions writes are refused; to retry, not to drop."),
        Step("Their buffers are finite (buffer.memory, delivery.timeout.ms): tell them how long it will last."),
    ),
)
SLOW: Final = Runbook(
    title="A broker is slow",
    alerts=("CanaryLeaderSlow", "CanaryClusterSlow", "CanaryCoordinatorSlow", "CanaryCoordinatorUnavailable"),
    means=(
        Step(
            "Nothing is refused or lost so far. A slow leader makes its producers wait, and may lose its followers; a "
            "slow coordinator makes commits of groups and transactions wait, and one that does not answer, fail."
        ),
    ),
    real=(
        shared.FIRES,
        Step("Compare it with the others, in writing and in reading.", run.PRODUCE_P99, run.READ_P99),
        Step("See whether the canary's own machine is the slow one: then all brokers look slow at once.", run.FAILING),
    ),
    stop=(
        _LEAD_ELSEWHERE,
        Step("Stop what loads it: a reassignment, a scan from the beginning, a backup.", run.REASSIGNMENTS),
    ),
    extent=(
        _MACHINE,
        _REPLICAS,
        Step("See which partitions and groups it leads or coordinates.", run.LED_BY, run.GROUP_MEMBERS),
    ),
    recover=(
        Step(
            "Repair or replace the disk or machine; let it catch up; give leaderships back.",
            run.UNDER_REPLICATED,
            run.ELECT_PREFERRED,
        ),
        Step("See that latencies are where they were.", run.PRODUCE_P99),
    ),
    tell=(Step("The owners of producers and consumers there: slower since when, and nothing lost."),),
)
OBJECTIVES: Final = Runbook(
    title="An objective is missed, or its error budget burns",
    alerts=(
        "CanaryBudgetBurnFast",
        "CanaryBudgetBurnSlow",
        "CanaryBudgetBurnSteady",
        "CanaryObjectiveMissed",
        "CanaryObjectiveUnknown",
    ),
    means=(
        Step(
            "An objective allows so much trouble in its window: the error budget. A fast burn uses it up within hours "
            "or days, so act now; a slow or steady one is work for the day; a missed objective is a fact."
        ),
        Step(
            "Of an objective that is unknown nothing was measured: it is neither met nor missed, and no budget burns."
        ),
    ),
    real=(
        shared.FIRES,
        Step(
            "See what it is made of: acknowledged of attempted, and latencies.",
            run.ACKED_SHARE,
            run.PRODUCE_P99,
            run.READ_P99,
        ),
        _WHO,
    ),
    stop=(
        Step("If another alert of the canary fires, its runbook comes first: this one is its sum.", run.ALL_FIRING),
        _REPLICAS,
        _LEAD_ELSEWHERE,
    ),
    extent=(
        Step("See since when, and whether it began with a change (a release, a restart, a reassignment).", run.BROKERS),
        _MACHINE,
    ),
    recover=(
        Step("Undo the change that it began with. The budget comes back by itself as the window moves on."),
        Step("While it is used up put off risky changes of this cluster."),
        _DONE,
    ),
    tell=(Step("Those to whom the objective was promised: which, how much of the budget is left, what was done."),),
)

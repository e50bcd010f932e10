"""Runbooks of what the canary does not see: missed reconciliations, what expires unread, brokers without a probe."""

from typing import Final

from dashboards.runbooks import commands as run
from dashboards.runbooks import shared
from dashboards.runbooks.runbook import Runbook, Step

_LATER: Final = Step(
    "What expires before it was compared is never judged: see how long the probe topics keep it.", run.SETTINGS
)

RECONCILIATION: Final = Runbook(
    title="The nightly comparison is missing, or incomplete",
    alerts=(
        "CanaryReconcileStale",
        "CanaryReconcileMissing",
        "CanaryReconcileUnjudged",
        "CanaryDigestStale",
        "CanaryDigestUnknown",
        "CanaryReceiptsStale",
        "CanaryReceiptsUnknown",
    ),
    means=(Step("Losses that no online check can see stay unknown until the next good run."),),
    real=(shared.FIRES, Step("See the last runs and their errors.", run.RECONCILIATIONS, run.RECONCILED)),
    stop=(
        Step("See whether a scheduler runs that has the cluster (`canary schedule`, `canary up`); read its log."),
        Step("See its disk and memory: Spark wants both (docs/sizing.md).", run.DISKS_CANARY),
        _LATER,
    ),
    extent=(
        Step(
            "See which partitions were not judged; most had no leader during the dump.",
            run.RECONCILIATIONS,
            run.UNAVAILABLE,
        ),
    ),
    recover=(
        Step("Ask for one now; it reads everything.", run.RECONCILE, run.RECONCILIATIONS),
        Step(
            "Or do it by hand, on a machine with Spark and the canary's settings.",
            run.DUMP_TOPICS,
            run.RECONCILE_BY_HAND,
        ),
    ),
    tell=(Step("Those who rely on the nightly word: since when it is missing. The running canary still judges."),),
)
UNREAD: Final = Runbook(
    title="Retained records are read too late, or not at all",
    alerts=(
        "CanaryScrubberBehind",
        "CanaryUnverifiedExpiry",
        "CanaryRandomReadsUnanswered",
        "CanarySuspicionsStay",
    ),
    means=(
        Step("What vanishes after it was read once is found by reading again; what expires unread is never known."),
    ),
    real=(shared.FIRES, Step("See how far the scrubber is, and what expired unread.", run.SCRUB, run.UNVERIFIED)),
    stop=(Step("Keep the probe topics longer while you look for the cause.", run.KEEP_ALL_RECORDS), shared.NOT_WATCHED),
    extent=(
        Step("See whether consumers are late altogether, and whether production's are, too.", run.LATE, run.GROUPS),
    ),
    recover=(
        Step(
            "Raise runner.scrub_rate: a round takes the bytes that the probe topics retain, divided by it.",
            run.LOG_DIRS,
        ),
        Step("Then set the retention to what a round, and a day for the reconciliation, need.", run.SETTINGS),
        shared.READ_EVERYTHING,
    ),
    tell=(Step("Those who rely on it: of which time it cannot be said that every write was kept."),),
)
SPREAD: Final = Runbook(
    title="Not every broker is probed",
    alerts=("CanaryBrokersWithoutProbe",),
    means=(Step("The probes are a sample of brokers: a loss on one that leads no probe partition goes unnoticed."),),
    real=(Step("See which brokers lead what.", run.WITHOUT_PROBE, run.PARTITIONS, run.TOPICS_PLAN),),
    stop=(
        Step(
            "If leaders only wandered (a restart, a dead broker), bring the broker back and elect the preferred ones.",
            run.ELECT_PREFERRED,
        ),
    ),
    extent=(Step("See whether a broker is new, or drained.", run.BROKERS, run.LOG_DIRS),),
    recover=(
        Step(
            "Let the canary add partitions; it never moves replicas. Where they must move, do it yourself.",
            run.TOPICS_APPLY,
            run.REASSIGNMENTS,
        ),
    ),
    tell=(Step("Whoever adds and drains brokers: that the probe topics belong to the list."),),
)
SILENT_MODE: Final = Runbook(
    title="A mode proves nothing",
    alerts=("CanaryModeSilent",),
    means=(
        Step("Each mode finds what no other does (docs/modes.md); without an acknowledged write it finds nothing."),
    ),
    real=(shared.FIRES, Step("See which partitions, and since when (`modes`).", run.SUMMARY)),
    stop=(
        Step(
            "Read what the client reports in the runner's log: no coordinator, a right that is missing, no leader.",
            run.TRANSACTIONS,
            run.UNAVAILABLE,
        ),
    ),
    extent=(
        Step(
            "See whether applications that do the same (transactions, groups) are refused, too.",
            run.GROUPS,
            run.HANGING,
        ),
    ),
    recover=(
        Step("Mend the cause; the mode goes on by itself, and one round of all modes shows it.", run.SMOKE),
        Step("A mode that this cluster cannot serve is switched off in the canary's settings.", run.CONFIG_CHECK),
    ),
    tell=(Step("Those who rely on that guarantee: since when it is not watched."),),
)
AUDIT: Final = Runbook(
    title="The cluster is configured to lose data",
    alerts=("CanaryAuditCritical",),
    means=(Step("Nothing is lost so far. With these settings an ordinary failure will lose acknowledged writes."),),
    real=(Step("See each finding, why it is unsafe, and what to set.", run.AUDIT, run.FINDINGS),),
    stop=(
        shared.UNCLEAN_OFF,
        Step(
            "min.insync.replicas: 2 with three replicas. Look at the ISR first: where it is smaller than that, writes "
            "with acks=all are refused from then on.",
            run.UNDER_REPLICATED,
            run.MIN_ISR_2,
        ),
    ),
    extent=(Step("See which topics have settings of their own, which win over the brokers'.", run.OVERRIDES),),
    recover=(
        Step(
            "Topics with too few replicas get more by a reassignment (kafka-reassign-partitions.sh --execute), "
            "throttled."
        ),
        Step("Producers decide, too: acks=all and enable.idempotence=true."),
        Step("Put the settings where topics are made (Terraform, operators), or they come back."),
    ),
    tell=(Step("The owners of the topics named: what could be lost, and what changes for their producers."),),
)
ANY_FINDING: Final = Runbook(
    title="A promise may be broken",
    means=(Step("This kind of violation has no runbook of its own: the evidence has the facts."),),
    real=(shared.ON_THE_PAGES,),
    stop=(shared.TOUCH_NOTHING, shared.FORMER_LEADERS, shared.PRESERVE),
    extent=(shared.EXPOSED, shared.READ_EVERYTHING),
    recover=(shared.RESCUE, shared.READ_THE_RESCUED, shared.WRITE_AGAIN),
    tell=(shared.TELL_OWNERS, shared.CLOSE_LOST),
)
"""Of a kind that no other runbook names."""
ANY_ALERT: Final = Runbook(
    title="Something needs a look",
    means=(Step("This alert has no runbook of its own: its first steps are above."),),
    real=(shared.FIRES,),
    stop=(shared.TOUCH_NOTHING,),
    extent=(Step("See what else fires.", run.ALL_FIRING), shared.NOT_WATCHED),
    recover=(Step("See that the canary judges, and what it says.", run.READY, run.SUMMARY),),
    tell=(shared.NOT_WATCHED,),
)
"""Of an alert that no other runbook names."""

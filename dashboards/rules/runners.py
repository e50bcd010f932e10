"""Alerts about runners: one that judges nothing, a share without a runner, a ledger that fails."""

from dashboards.boards.queries import HEARTBEAT, gauge, increase
from dashboards.rules.rule import SILENCE, UNWRITTEN, Rule
from dashboards.rules.thresholds import PENDING_ROWS, SILENT_S

RUNNERS = (
    Rule(
        name="CanaryRunnerDown",
        notify="heartbeat",
        class_="blindness",
        expression=f"({SILENCE} > {SILENT_S}) unless on (cluster) {UNWRITTEN}",
        hold="30s",
        keep="5m",
        severity="critical",
        summary="No runner watches {{ $labels.cluster }}",
        meaning="No runner of the cluster has judged anything: losses would go unnoticed. The store is not the "
        "reason: it takes writes of the API, as far as that is known.",
        now="The last heartbeat of {{ $labels.cluster }} is {{ $value | humanizeDuration }} old.",
        advice=(
            "See whether the runner's process lives, and read the end of its log.",
            "See whether it reaches the store, and whether the disk of its ledger answers.",
        ),
    ),
    Rule(
        name="CanaryRunnerMissing",
        notify="no: the others of its cluster judge",
        class_="blindness",
        expression=f"(time() - {gauge(HEARTBEAT)} > 300 < 86400) unless on (cluster) ({SILENCE} > {SILENT_S})",
        hold="5m",
        summary="Runner {{ $labels.runner }} of {{ $labels.cluster }} is silent",
        meaning="One of several runners of the cluster does not report; the others do.",
        now="{{ $labels.runner }} of {{ $labels.cluster }} has been silent for {{ $value | humanizeDuration }}.",
        advice=("Start it again. If it was retired, do nothing: the alert ends a day after its last heartbeat.",),
    ),
    Rule(
        name="CanaryShardMissing",
        notify="heartbeat",
        class_="blindness",
        expression=f"(max by (cluster) ({gauge('canary_shards_missing')}) > 0) "
        f"unless on (cluster) ({SILENCE} > {SILENT_S})",
        hold="2m",
        severity="critical",
        summary="Part of {{ $labels.cluster }} is not watched",
        meaning="Several runners share the partitions of the cluster, and one of them does not report: losses in its "
        "share would go unnoticed.",
        now="{{ $value | humanize }} shares of {{ $labels.cluster }} have no live runner.",
        advice=(
            "See which runner is silent (status page), and start it again.",
            "If the number of runners was changed: each has its own number in clusters[].shard, 0/n to (n-1)/n.",
        ),
    ),
    Rule(
        name="CanaryLedgerPending",
        notify="incident (`blind`), when nothing is judged any more",
        expression=f"{gauge('canary_ledger_pending_rows')} > {PENDING_ROWS}",
        hold="2m",
        keep="5m",
        summary="The canary's disk of {{ $labels.cluster }} is slow",
        meaning="Facts wait to become durable in the ledger. Until then they are not judged.",
        now="{{ $value | humanize }} wait in {{ $labels.cluster }}.",
        advice=("See whether the disk of the ledger is full or slow.",),
    ),
    Rule(
        name="CanaryPartFailing",
        notify="incident (`blind`), where losses could go unnoticed",
        class_="blindness",
        expression=f"max by (cluster, part) ({gauge('canary_part_failing')}) > 0",
        hold="2m",
        keep="10m",
        summary="Part of the canary of {{ $labels.cluster }} does not work",
        meaning="A part that a runner needs does not work: its ledger, its queue of facts, the probe log, or a thread "
        "that ends again and again. Where losses could go unnoticed meanwhile, CanaryBlind fires too.",
        now="It is: {{ $labels.part }}.",
        advice=(
            "Read the end of the runner's log: it gives the reason.",
            "Look at the disk and at the limit of open files.",
        ),
    ),
    Rule(
        name="CanaryLedgerErrors",
        notify="incident (`blind`), when it cannot be written",
        class_="blindness",
        expression=f"{increase('canary_ledger_errors_total', window='10m')} > 0",
        summary="The canary's disk of {{ $labels.cluster }} fails",
        meaning="A write or fsync of the ledger failed; the batch is written again to a new file.",
        now="{{ $value | humanize }} errors in ten minutes in {{ $labels.cluster }}.",
        advice=("Read the kernel's log of that machine: after a failed fsync nothing on that disk is certain.",),
    ),
)

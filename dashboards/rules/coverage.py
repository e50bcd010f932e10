"""Alerts about what the canary does not see: missed reconciliations, a slow scrubber, brokers without a probe."""

from canary.metrics import METRICS
from dashboards.boards.queries import gauge, increase, one
from dashboards.rules.rule import UNLOOKED, Rule, age, covered
from dashboards.rules.thresholds import NIGHT_S, SCRUBBED_S

_UNRECONCILED = age("canary_reconcile_last_success_timestamp_seconds", "canary_reconcile_interval_seconds")
_INTERVAL = f"max by (cluster) ({gauge('canary_reconcile_interval_seconds')})"
_MISSED = "The last good one of {{ $labels.cluster }}, or the first probe, is {{ $value | humanizeDuration }} ago."
_MISSED_ADVICE = (
    "See GET /api/v1/reconciliations for the error of the last run.",
    "If there was none, see whether a scheduler runs (`canary up`, `canary schedule`) that has the cluster.",
    "Ask for one: POST /api/v1/reconciliations.",
)
_SCRUB_AGE = gauge("canary_scrub_age_seconds")
_SCRUB_MOVES = one(f"changes({METRICS['canary_scrub_position_ratio'].name}[3h])")
_RANDOM_READS = f"sum by (cluster, topic) ({gauge('canary_random_reads_total')})"


def _random_reads(outcome: str) -> str:
    return increase("canary_random_reads_total", f'outcome="{outcome}"', window="3h")


_CRITICAL_FINDINGS = gauge("canary_audit_findings", 'severity="critical"')

_BLIND = gauge("canary_violations_open", 'kind="blind"')
_UNLESS_BLIND = f"unless on (cluster) (max by (cluster) ({_BLIND}) > 0)"
_NOT_COMPARED = gauge("canary_replicas_unknown_partitions", 'reason!="tiered"')


def _overdue(prefix: str) -> str:
    """Return whether what a night does besides was last done whole longer ago than the time between two."""
    return f"{age(f'{prefix}_last_success_timestamp_seconds')} > {_INTERVAL} + {NIGHT_S}"


def _unknown(prefix: str) -> str:
    """Return whether the last night left something unknown."""
    return f"max by (cluster) ({gauge(f'{prefix}_unknown')}) > 0"


COVERAGE = (
    Rule(
        name="CanaryReconcileStale",
        notify=UNLOOKED,
        expression=f"{_UNRECONCILED} > {_INTERVAL} + {NIGHT_S}",
        summary="{{ $labels.cluster }} was not reconciled last night",
        meaning="The last reconciliation that was due (schedule.reconcile) did not end well, or did not begin.",
        now=_MISSED,
        advice=_MISSED_ADVICE,
    ),
    Rule(
        name="CanaryReconcileMissing",
        notify=UNLOOKED,
        class_="blindness",
        expression=f"{_UNRECONCILED} > 2 * {_INTERVAL} + {NIGHT_S}",
        summary="{{ $labels.cluster }} was not reconciled for two nights",
        meaning="Two reconciliations in a row that were due (schedule.reconcile) did not end well, or did not begin. "
        "Records that expire before the next one are never compared with what was promised.",
        now=_MISSED,
        advice=_MISSED_ADVICE,
    ),
    Rule(
        name="CanaryReconcileUnjudged",
        notify=UNLOOKED,
        expression=f"max by (cluster) ({gauge('canary_reconcile_unjudged')}) > 0",
        hold="10m",
        summary="Part of {{ $labels.cluster }} could not be reconciled",
        meaning="The last reconciliation had promises in partitions whose bounds (first and end offset) it could not "
        "read.",
        now="{{ $value | humanize }} partitions of {{ $labels.cluster }}.",
        advice=("See which in GET /api/v1/reconciliations; usually they had no leader at the time of the dump.",),
    ),
    Rule(
        name="CanaryDigestStale",
        notify=UNLOOKED,
        expression=_overdue("canary_digest"),
        summary="The digests of topics of {{ $labels.cluster }} are overdue",
        meaning="The digests that were due (clusters[].digests) were not made of all partitions. Records that are lost "
        "and expire before the next ones are never missed.",
        now="The last ones of {{ $labels.cluster }} were made {{ $value | humanizeDuration }} ago.",
        advice=("See the error: digests, in the summary of the last run in GET /api/v1/reconciliations.",),
    ),
    Rule(
        name="CanaryDigestUnknown",
        notify=UNLOOKED,
        expression=_unknown("canary_digest"),
        hold="10m",
        summary="Of topics of {{ $labels.cluster }} it is unknown what they hold",
        meaning="The last night could not read partitions under clusters[].digests, or not tell whether compaction has "
        "removed records of theirs, or a topic that is named there is not there: whether they lost records since is "
        "unknown.",
        now="{{ $value | humanize }} partitions or topics of {{ $labels.cluster }}.",
        advice=("See which, or the error: digests, in the summary of the last run in GET /api/v1/reconciliations.",),
    ),
    Rule(
        name="CanaryReceiptsStale",
        notify=UNLOOKED,
        expression=_overdue("canary_receipts"),
        summary="The check of receipts of {{ $labels.cluster }} is overdue",
        meaning="The check of receipts that was due (clusters[].receipts) was not made, or not without anything "
        "unknown. Records that are lost and expire before the next one are never missed.",
        now="The last one of {{ $labels.cluster }} was made {{ $value | humanizeDuration }} ago.",
        advice=("See the error: receipts, in the summary of the last run in GET /api/v1/reconciliations.",),
    ),
    Rule(
        name="CanaryReceiptsUnknown",
        notify=UNLOOKED,
        expression=_unknown("canary_receipts"),
        hold="10m",
        summary="Of receipts of {{ $labels.cluster }} it is unknown whether their records are there",
        meaning="The last night could not check clusters[].receipts, not judge some of them, or not read some files: "
        "whether these records are lost is unknown.",
        now="{{ $value | humanize }} receipts or files of {{ $labels.cluster }}.",
        advice=(
            "See why, or the error: receipts, in the summary of the last run in GET /api/v1/reconciliations.",
            "`canary receipts check` says it in words.",
            "Only if you know that you made the topic anew, remove the files of receipts from before that.",
        ),
    ),
    Rule(
        name="CanaryScrubberBehind",
        notify=UNLOOKED,
        expression=f"max by (cluster) (({_SCRUB_AGE} > {SCRUBBED_S}) or "
        f"(({_SCRUB_AGE} > 21600) and ({_SCRUB_MOVES} == 0)))",
        hold="1h",
        summary="The scrubber of {{ $labels.cluster }} is too slow or stands still",
        meaning="The scrubber reads everything retained again and again; a round takes more than a week, or it stands "
        "still. A loss meanwhile is noticed late, or only by the nightly reconciliation.",
        now="The last round of {{ $labels.cluster }} ended {{ $value | humanizeDuration }} ago.",
        advice=(
            "Raise runner.scrub_rate: a round takes the bytes that the probe topics retain, divided by it.",
            "Or shorten the probe topics' retention; the reconciliation still needs more than a day of it.",
        ),
    ),
    Rule(
        name="CanaryRandomReadsUnanswered",
        notify=UNLOOKED,
        expression=f"(sum by (cluster, topic) ({_random_reads('unanswered')}) >= 2) and "
        f"(sum by (cluster, topic) ({_random_reads('answered')}) == 0) and "
        f"{covered(_RANDOM_READS, 3)}",
        hold="10m",
        summary="Old records of {{ $labels.topic }} cannot be read",
        meaning="Every read of old records at a random place (readers.random_every) ended without an answer for three "
        "hours, of which at least half are known. Whether what is retained is still there is unknown; new records may "
        "be read all the same.",
        now="{{ $value | humanize }} reads of {{ $labels.topic }} in {{ $labels.cluster }} within three hours.",
        advice=(
            "The runner logs each of these reads with the reason random, and what the brokers answered as its error.",
            "Read an old record by hand: kafka-console-consumer.sh with --partition and --offset.",
            "Where the topic has a remote tier, look at the remote log manager's errors on the leader.",
        ),
    ),
    Rule(
        name="CanaryUnverifiedExpiry",
        notify=UNLOOKED,
        expression=f"sum by (cluster) ({increase('canary_unverified_expired_total', window='1h')}) > 0",
        summary="Probes of {{ $labels.cluster }} will never be read",
        meaning="Retention removed acknowledged probes before any consumer read them, or their topic is no longer "
        "probed: whether they were kept until then is unknown.",
        now="{{ $value | humanize }} within an hour in {{ $labels.cluster }}.",
        advice=(
            "Was a probe topic renamed, or a mode switched off? What waited there is counted once, at the start.",
            "Else give the probe topic a longer retention, or find out why consumers are late.",
        ),
    ),
    Rule(
        name="CanaryModeSilent",
        notify=UNLOOKED,
        expression=f"(max by (cluster, topic, mode) ({gauge('canary_mode_silent')}) > 0) {_UNLESS_BLIND}",
        hold="1m",
        keep="5m",
        summary="The mode {{ $labels.mode }} has no acknowledged write in {{ $labels.cluster }}",
        meaning="The mode has had no acknowledged probe (group: commit) in some partitions for ten of its intervals, "
        "and for a minute: what only this mode finds there goes unnoticed.",
        now="{{ $value | humanize }} partitions of {{ $labels.topic }} in {{ $labels.cluster }}.",
        advice=(
            "GET /api/v1/clusters/{cluster}/summary names the partitions, and since when (`modes`).",
            "See the runner's log for what the client reports: a coordinator, a right, a leader that is missing.",
            "A mode that this cluster cannot serve is switched off in the settings (modes).",
        ),
    ),
    Rule(
        name="CanarySuspicionsStay",
        notify=UNLOOKED,
        expression=f"max by (cluster, kind) ({gauge('canary_suspects')}) > 0",
        hold="5m",
        keep="5m",
        summary="Suspicions of {{ $labels.cluster }} are neither confirmed nor refuted",
        meaning="Records were found missing or wrong, and for five minutes neither a fresh re-read nor the topic's id "
        "has settled it; or (topic-recreated) brokers give another id of a topic, too: whether anything is lost is "
        "unknown.",
        now="{{ $value | humanize }} suspected as {{ $labels.kind }} in {{ $labels.cluster }}.",
        advice=(
            "GET /api/v1/clusters/{cluster}/summary says which questions have no answer (`details`).",
            "See whether the leader of the partition answers fetches, and the controller describes topics.",
            "Where brokers give a topic another id, too, one has old metadata: see which is cut off.",
        ),
    ),
    Rule(
        name="CanaryBrokersWithoutProbe",
        notify=UNLOOKED,
        expression=f"max by (cluster) ({gauge('canary_brokers_without_probe')}) > 0",
        hold="30m",
        summary="Brokers of {{ $labels.cluster }} are not probed",
        meaning="Some brokers lead no partition of the probe topic: a loss on them alone would go unnoticed.",
        now="{{ $value | humanize }} brokers of {{ $labels.cluster }}.",
        advice=("`canary topics plan` shows how to spread the probe topic again.",),
    ),
    Rule(
        name="CanaryGroupsUnknown",
        notify=UNLOOKED,
        expression=f"max by (cluster) ({gauge('canary_groups_unknown')}) > 0",
        hold="15m",
        summary="Groups of {{ $labels.cluster }} are not seen",
        meaning="Of some groups under watch.groups nothing is known: not their lag, not whether they are stuck.",
        now="{{ $value | humanize }} groups of {{ $labels.cluster }}.",
        advice=(
            "GET /api/v1/groups says why, for each (`error`), or for all (`unknown`).",
            "If it is a refusal, give the rights that docs/acl.md names: Describe of the group, and of its topics.",
            "If no group is matched, look at watch.groups; a group that has not begun yet is none.",
        ),
    ),
    Rule(
        name="CanaryTransactionsUnknown",
        notify=UNLOOKED,
        expression=f"max by (cluster) ({gauge('canary_transactions_unknown')}) > 0",
        hold="15m",
        summary="Hanging transactions of {{ $labels.cluster }} are not seen",
        meaning="In topics under watch.transactions transactions that hang cannot be looked for.",
        advice=(
            "GET /api/v1/transactions says why (`unknown`).",
            "If it is a refusal, give the right to Describe the topics.",
        ),
    ),
    Rule(
        name="CanaryEpochsUnknown",
        notify=UNLOOKED,
        expression=f"max by (cluster) ({gauge('canary_epochs_unknown')}) > 0",
        hold="15m",
        summary="Elections in topics of {{ $labels.cluster }} are not seen",
        meaning="Of some partitions under watch.epochs the leader epochs are not known: what an election cuts off "
        "there goes unnoticed.",
        now="{{ $value | humanize }} partitions of {{ $labels.cluster }}.",
        advice=(
            "If it is a refusal, the status page says so: give the right to Describe the topics.",
            "If no topic is matched, look at watch.epochs. A partition without a leader is not counted: it is offline.",
        ),
    ),
    Rule(
        name="CanaryQuorumUnknown",
        notify=UNLOOKED,
        expression=f"max by (cluster) ({gauge('canary_quorum_unknown')}) > 0",
        hold="15m",
        summary="The controllers of {{ $labels.cluster }} are not seen",
        meaning="The metadata quorum is not known: not which controller leads, not how far the others are.",
        advice=(
            "If it is a refusal, the status page says so: give the right to Describe the cluster.",
            "Clusters without KRaft have no such quorum: leave watch.quorum out there.",
        ),
    ),
    Rule(
        name="CanaryControllerBehind",
        notify=UNLOOKED,
        expression=f"max by (cluster, node) ({gauge('canary_quorum_voter_behind_seconds')}) > 60",
        hold="10m",
        summary="Controller {{ $labels.node }} of {{ $labels.cluster }} does not keep up",
        meaning="A controller has not had all of the metadata log for a minute and longer: it may be down, and one "
        "less may fail before nothing is elected any more.",
        now="Controller {{ $labels.node }} of {{ $labels.cluster }} for {{ $value | humanizeDuration }}.",
        advice=(
            "See whether it runs, and what its log says.",
            "Do not restart another controller before it is back.",
        ),
    ),
    Rule(
        name="CanaryReplicasUnknown",
        notify=UNLOOKED,
        expression=f"max by (cluster) ({gauge('canary_replicas_unknown')}) > 0 "
        f"or sum by (cluster) ({_NOT_COMPARED}) > 0",
        hold="1h",
        summary="Replicas of {{ $labels.cluster }} are not compared",
        meaning="In topics under watch.replicas something could not be compared: replicas that differ would not be "
        "found there.",
        advice=(
            "`canary_replicas_unknown_partitions` says for which reason, `canary replicas compare TOPIC` in words.",
            "If it is a refusal, give the rights that docs/acl.md names: Read and Describe of the topics.",
            "If replicas are not in sync, bring them back: what they hold may be cut off yet.",
        ),
    ),
    Rule(
        name="CanaryAuditCritical",
        notify=UNLOOKED,
        expression=f"{_CRITICAL_FINDINGS} > 0",
        hold="10m",
        summary="{{ $labels.cluster }} is configured to lose data",
        meaning="The configuration audit has critical findings.",
        now="{{ $value | humanize }} in {{ $labels.cluster }}.",
        advice=("`canary audit` names each setting, why it is unsafe, and what to set.",),
    ),
)

"""Alerts about what the canary does not see: missed reconciliations, a slow scrubber, brokers without a probe."""

from canary.metrics import METRICS
from dashboards.boards.queries import gauge, increase, one
from dashboards.rules.rule import Rule

_RECONCILED = f"max by (cluster) ({gauge('canary_reconcile_last_success_timestamp_seconds')})"
_PROBING = f"max by (cluster) ({gauge('canary_probing_since_timestamp_seconds')})"
_UNRECONCILED = f"time() - ({_RECONCILED} or {_PROBING})"
_INTERVAL = f"max by (cluster) ({gauge('canary_reconcile_interval_seconds')})"
_NIGHT_S = 7_200
"""A reconciliation that begins on time ends within this, even if only its third attempt succeeds."""
_MISSED = "The last good one of {{ $labels.cluster }}, or the first probe, is {{ $value | humanizeDuration }} ago."
_MISSED_ADVICE = (
    "See GET /api/v1/reconciliations for the error of the last run.",
    "If there was none, see whether a scheduler runs (`canary up`, `canary schedule`) that has the cluster.",
    "Ask for one: POST /api/v1/reconciliations.",
)
_SCRUB_AGE = gauge("canary_scrub_age_seconds")
_SCRUB_MOVES = one(f"changes({METRICS['canary_scrub_position_ratio'].name}[3h])")
_WEEK_S = 604_800
_CRITICAL_FINDINGS = gauge("canary_audit_findings", 'severity="critical"')

COVERAGE = (
    Rule(
        name="CanaryReconcileStale",
        expression=f"{_UNRECONCILED} > {_INTERVAL} + {_NIGHT_S}",
        summary="{{ $labels.cluster }} was not reconciled last night",
        meaning="The last reconciliation that was due (schedule.reconcile) did not end well, or did not begin.",
        now=_MISSED,
        advice=_MISSED_ADVICE,
    ),
    Rule(
        name="CanaryReconcileMissing",
        expression=f"{_UNRECONCILED} > 2 * {_INTERVAL} + {_NIGHT_S}",
        severity="critical",
        summary="{{ $labels.cluster }} was not reconciled for two nights",
        meaning="Two reconciliations in a row that were due (schedule.reconcile) did not end well, or did not begin. "
        "Records that expire before the next one are never compared with what was promised.",
        now=_MISSED,
        advice=_MISSED_ADVICE,
    ),
    Rule(
        name="CanaryReconcileUnjudged",
        expression=f"max by (cluster) ({gauge('canary_reconcile_unjudged')}) > 0",
        hold="10m",
        summary="Part of {{ $labels.cluster }} could not be reconciled",
        meaning="The last reconciliation had promises in partitions whose bounds (first and end offset) it could not "
        "read.",
        now="{{ $value | humanize }} partitions of {{ $labels.cluster }}.",
        advice=("See which in GET /api/v1/reconciliations; usually they had no leader at the time of the dump.",),
    ),
    Rule(
        name="CanaryScrubberBehind",
        expression=f"max by (cluster) (({_SCRUB_AGE} > {_WEEK_S}) or "
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
        name="CanaryUnverifiedExpiry",
        expression=f"sum by (cluster) ({increase('canary_unverified_expired_total', window='1h')}) > 0",
        summary="Probes of {{ $labels.cluster }} expired unread",
        meaning="Retention removed acknowledged probes before any consumer read them: whether they were kept until "
        "then is unknown.",
        now="{{ $value | humanize }} within an hour in {{ $labels.cluster }}.",
        advice=("Give the probe topic a longer retention, or find out why consumers are late.",),
    ),
    Rule(
        name="CanaryBrokersWithoutProbe",
        expression=f"max by (cluster) ({gauge('canary_brokers_without_probe')}) > 0",
        hold="30m",
        summary="Brokers of {{ $labels.cluster }} are not probed",
        meaning="Some brokers lead no partition of the probe topic: a loss on them alone would go unnoticed.",
        now="{{ $value | humanize }} brokers of {{ $labels.cluster }}.",
        advice=("`canary topics plan` shows how to spread the probe topic again.",),
    ),
    Rule(
        name="CanaryAuditCritical",
        expression=f"{_CRITICAL_FINDINGS} > 0",
        hold="10m",
        summary="{{ $labels.cluster }} is configured to lose data",
        meaning="The configuration audit has critical findings.",
        now="{{ $value | humanize }} in {{ $labels.cluster }}.",
        advice=("`canary audit` names each setting, why it is unsafe, and what to set.",),
    ),
)

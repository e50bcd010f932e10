"""Prometheus rules: one for every anomaly that may be critical, and one for each way in which the canary can be blind.

An alert of an anomaly fires while a violation of its kind is open, and for five minutes after a new one was found
(so the first is seen, whether or not it has been acknowledged in the meantime, and a replica that starts later agrees).
It resolves when somebody has dealt with all of them. What is found in a planned window is not open and does not count
as new; of a cluster in shadow mode nothing fires.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import yaml

from canary.anomalies.catalogue import CATALOGUE
from canary.metrics import metric
from dashboards.queries import gauge, increase, one, rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary.anomalies.catalogue import Anomaly

HEARTBEAT = "canary_runner_heartbeat_timestamp_seconds"
RECONCILED = "canary_reconcile_last_success_timestamp_seconds"
PROBING = "canary_probing_since_timestamp_seconds"
CRITICAL = 'severity="critical"'
MAINTENANCE = 'reason="maintenance"'
SHADOW = 'reason="shadow"'
ADDRESS = '{{ with query "canary_api_info" }}{{ . | first | label "url" }}'
"""Where the pages are, as the API says it; nothing if it says nothing."""
WEEK_S = 604_800
TITLES = {
    "kafka-durability": "Broken promises, and what endangers them",
    "kafka-durability-canary-blind": "The canary itself",
}
"""Of the groups of rules, for people."""
UNWRITABLE_S = 60
UNWRITABLE_HOLD = "15s"
"""Longer than a canary that was frozen, and has not heard yet what was answered meanwhile, shows its own pause."""
NIGHT_S = 7_200
"""So long after its hour a reconciliation has ended well, also at the third try."""
FOR_ALL = frozenset({"CanaryApiDown", "CanaryStoreDown", "CanaryAlertTest"})
"""Rules that know no cluster, or that shadow mode does not silence."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An alerting rule: ``hold`` is Prometheus' ``for``; ``advice`` is for the runbook, the first thing to do first.

    ``kind`` is the anomaly whose incidents it speaks of, "" if it speaks of the canary itself.
    """

    name: str
    expression: str
    hold: str
    severity: Literal["critical", "warning"]
    summary: str
    meaning: str
    now: str
    advice: tuple[str, ...]
    kind: str = ""

    @property
    def description(self) -> str:
        """What it means, and the values of this occurrence."""
        return f"{self.meaning} {self.now}".strip()

    @property
    def runbook_url(self) -> str:
        """The template of where the API serves the runbook of this alert."""
        return f"{ADDRESS}/runbooks/{self.name}{{{{ end }}}}"

    @property
    def link(self) -> tuple[str, str]:
        """The annotation that leads to the incident, or to the status page: its name and its template."""
        if not self.kind:
            return "status_url", f"{ADDRESS}/{{{{ end }}}}"
        asked = f"/incidents?cluster={{{{ urlquery $labels.cluster }}}}&kind={self.kind}"
        return "incident_url", f"{ADDRESS}{asked}{{{{ end }}}}"

    def as_yaml(self) -> dict[str, Any]:
        """Return the rule in Prometheus' shape."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.hold,
            "labels": {"severity": self.severity, "service": "kafka-durability-canary"},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": self.runbook_url,
                self.link[0]: self.link[1],
            },
        }


def groups() -> dict[str, tuple[Rule, ...]]:
    """Return all rules by group."""
    return {
        "kafka-durability": tuple(_unless_shadow(rule) for rule in _anomalies()),
        "kafka-durability-canary-blind": tuple(_unless_shadow(rule) for rule in _blind()),
    }


def _unless_shadow(rule: Rule) -> Rule:
    """Return the rule silent for clusters in shadow mode, for which everything is recorded and nobody is paged."""
    if rule.name in FOR_ALL:
        return rule
    shadow = f"max by (cluster) ({gauge('canary_quiet', SHADOW)})"
    return replace(rule, expression=f"({rule.expression}) unless on (cluster) {shadow}")


def rules_yaml() -> str:
    """Return the rules as a file for Prometheus."""
    content = {
        "groups": [{"name": name, "rules": [rule.as_yaml() for rule in rules]} for name, rules in groups().items()]
    }
    head = "# Made by `python -m dashboards` from the catalogues; do not edit by hand.\n"
    return head + yaml.safe_dump(content, sort_keys=False, width=4096, allow_unicode=True)


def runbook(rule: Rule) -> str:
    """Return the page of a rule, in Markdown."""
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(rule.advice, 1))
    return (
        f"# {rule.name}\n\n{rule.meaning}\n\n"
        f"Severity: **{rule.severity}**. Fires after: {rule.hold}.\n\n"
        f"## What to do\n\n{steps}\n\n## The rule\n\n```promql\n{rule.expression}\n```\n"
    )


def runbooks_json() -> str:
    """Return what the API serves at /runbooks: by name, what its pages show."""
    served = {
        rule.name: {
            "group": TITLES[group],
            "severity": rule.severity,
            "hold": rule.hold,
            "meaning": rule.meaning,
            "advice": rule.advice,
            "expression": rule.expression,
            "kind": rule.kind,
        }
        for group, rules in groups().items()
        for rule in rules
    }
    return json.dumps(served, indent=1) + "\n"


def runbooks_index() -> str:
    """Return the page that lists every runbook, in Markdown."""
    parts = [
        "# Runbooks\n\nOne page for each alert; made from the catalogue and the rules by `python -m dashboards`.\n"
    ]
    for group, rules in groups().items():
        rows = [f"| [{rule.name}]({rule.name}.md) | {rule.severity} | {rule.meaning} |" for rule in rules]
        parts += [f"## {TITLES[group]}\n", "| alert | severity | means |\n|---|---|---|", *rows, ""]
    return "\n".join(parts)


def alert_name(kind: str) -> str:
    """Return the alert of an anomaly: lost-write becomes CanaryLostWrite."""
    return "Canary" + "".join(part[:1].upper() + part[1:] for part in kind.split("-"))


def _anomalies() -> Iterator[Rule]:
    for anomaly in CATALOGUE.values():
        if "critical" in anomaly.severities:
            yield _anomaly(anomaly)


def _anomaly(anomaly: Anomaly) -> Rule:
    selector = f'kind="{anomaly.name}", severity="critical"'
    still_open = gauge("canary_violations_open", selector)
    found = increase("canary_violations_total", selector, "5m")
    planned = f"max by (cluster) ({gauge('canary_quiet', MAINTENANCE)})"
    return Rule(
        name=alert_name(anomaly.name),
        expression=f"({still_open} > 0) or (({found} > 0) unless on (cluster) {planned})",
        hold="0s",
        severity="critical",
        summary=f"{anomaly.title} in {{{{ $labels.cluster }}}}",
        meaning=f"{anomaly.meaning} {anomaly.implies}",
        now="{{ $value | humanize }} open or new in {{ $labels.cluster }}.",
        advice=(
            anomaly.do_first,
            "Open the status page of the canary: each violation has its evidence, and what else was exposed.",
            "Acknowledge the violation there when you are on it; resolve it with a reason when it is dealt with.",
            *((f"Not an error: {anomaly.allowed}",) if anomaly.allowed else ()),
        ),
        kind=anomaly.name,
    )


def _blind() -> Iterator[Rule]:
    tested = gauge("canary_violations_open", 'kind="alert-test", severity="critical"')
    yield Rule(
        "CanaryAlertTest",
        f"{tested} > 0",
        "0s",
        "critical",
        "A test of the alarm in {{ $labels.cluster }}: nothing is wrong",
        "Somebody ran `canary alert test` to see whether a page arrives. This is it.",
        "Cluster {{ $labels.cluster }}.",
        ("Tell whoever asked that it arrived, and after how long. It ends by itself.",),
        kind="alert-test",
    )
    newest = f"max by (cluster) ({gauge(HEARTBEAT)})"
    yield Rule(
        "CanaryRunnerDown",
        f"time() - {newest} > 45",
        "30s",
        "critical",
        "Nobody watches {{ $labels.cluster }}",
        "No runner of the cluster has judged anything: losses would go unnoticed.",
        "The last word of {{ $labels.cluster }} is {{ $value | humanizeDuration }} old.",
        (
            "See whether the runner's process lives, and read the end of its log.",
            "See whether it reaches the store, and whether the disk of its ledger answers.",
        ),
    )
    yield Rule(
        "CanaryRunnerMissing",
        f"(time() - {gauge(HEARTBEAT)} > 300 < 86400) unless on (cluster) (time() - {newest} > 45)",
        "5m",
        "warning",
        "Runner {{ $labels.runner }} of {{ $labels.cluster }} is silent",
        "One of several runners of the cluster does not report; the others do.",
        "{{ $labels.runner }} of {{ $labels.cluster }} has been silent for {{ $value | humanizeDuration }}.",
        ("Start it again, or do nothing if it was retired: a day later it is forgotten.",),
    )
    yield Rule(
        "CanaryShardMissing",
        f"(max by (cluster) ({gauge('canary_shards_missing')}) > 0) unless on (cluster) (time() - {newest} > 45)",
        "2m",
        "critical",
        "Part of {{ $labels.cluster }} is not watched",
        "The partitions of the cluster are shared among runners, and some runner does not report: losses in its share "
        "would go unnoticed.",
        "{{ $value | humanize }} shares of {{ $labels.cluster }} have no live runner.",
        (
            "See which runner is silent (status page), and start it again.",
            "If the number of runners was changed: each has its own number in clusters[].shard, 0/n to (n-1)/n.",
        ),
    )
    behind = one(f"timestamp({HEARTBEAT}) - {HEARTBEAT}")
    yield Rule(
        "CanaryStoreBehind",
        f"min by (cluster) ({behind}) > 15 <= 45",
        "2m",
        "warning",
        "What is known of {{ $labels.cluster }} reaches the store late",
        "Runners store what they know once a second; it takes them much longer.",
        "What the store knows of {{ $labels.cluster }} is {{ $value | humanizeDuration }} old.",
        (
            "See whether the database is slow (its disk, its locks) or far away from the runner.",
            "See whether the disk of the ledger is slow: what is told is what the ledger holds.",
            "Read the runner's log for store_unreachable and store_back. Nothing is lost: its ledger has it.",
        ),
    )
    yield Rule(
        "CanaryApiDown",
        "absent(canary_api_store_up)",
        "2m",
        "critical",
        "Nobody serves the canary's metrics",
        "Prometheus finds no API of the canary: none of its alarms can reach you, nor can its runbooks.",
        "First: see whether the API's process lives, then whether Prometheus scrapes it (Status, Targets).",
        ("See whether the API's process lives.", "See whether Prometheus scrapes it (Status, Targets)."),
    )
    yield Rule(
        "CanaryStoreDown",
        f"{gauge('canary_api_store_up')} == 0",
        "1m",
        "critical",
        "The canary's store does not answer",
        "No API replica reaches the store. Runners go on probing and remember what they find, but nobody is told.",
        "",
        ("Bring the database back; nothing is lost meanwhile, it is all in the runners' ledgers.",),
    )
    yield Rule(
        "CanaryNothingAcknowledged",
        f"(sum by (cluster) ({rate('canary_probes_acked_total', window='5m')}) == 0)"
        f" and on (cluster) (time() - {newest} < 60)"
        f" unless on (cluster) max by (cluster) ({gauge('canary_quiet', MAINTENANCE)})",
        "5m",
        "critical",
        "{{ $labels.cluster }} acknowledges no probe",
        "The canary runs, but the cluster has acknowledged nothing for five minutes: it is not available to writers.",
        "Cluster {{ $labels.cluster }}.",
        (
            "See the runner's log for the client's error: authentication, ACLs, quota, no route, no leader.",
            "See whether other producers have the same trouble.",
        ),
    )
    yield from _unwritable()
    yield Rule(
        "CanaryUnseenGrowing",
        f"max by (cluster, topic, partition, consumer) ({gauge('canary_unseen_oldest_seconds')}) > 60",
        "2m",
        "warning",
        "Acknowledged probes of {{ $labels.cluster }} are not readable",
        "An acknowledged probe is late: nobody has read it yet.",
        "{{ $labels.consumer }} of {{ $labels.topic }}-{{ $labels.partition }} in {{ $labels.cluster }} "
        "waits for {{ $value | humanizeDuration }}.",
        (
            "Late is not lost. See whether the partition has a leader and whether other consumers lag too.",
            "If only read_committed is late, a transaction hangs: kafka-transactions.sh find-hanging.",
        ),
    )
    yield Rule(
        "CanaryLedgerPending",
        f"{gauge('canary_ledger_pending_rows')} > 10000",
        "2m",
        "warning",
        "The canary's disk of {{ $labels.cluster }} is slow",
        "Facts wait to become durable, and until then they count for nothing.",
        "{{ $value | humanize }} wait in {{ $labels.cluster }}.",
        ("See whether the disk of the ledger is full or slow.",),
    )
    yield Rule(
        "CanaryPartFailing",
        f"max by (cluster, part) ({gauge('canary_part_failing')}) > 0",
        "2m",
        "warning",
        "Part of the canary of {{ $labels.cluster }} does not work",
        "Something that a runner needs does not work: its ledger, its queue of facts, the probe log, or a thread that "
        "ends again and again. Where losses could go unnoticed meanwhile, CanaryBlind fires too.",
        "It is: {{ $labels.part }}.",
        ("Read the end of the runner's log: it says why.", "Look at the disk and at the limit of open files."),
    )
    yield Rule(
        "CanaryLedgerErrors",
        f"{increase('canary_ledger_errors_total', window='10m')} > 0",
        "0s",
        "warning",
        "The canary's disk of {{ $labels.cluster }} fails",
        "A write or fsync of the ledger failed; the batch is written again to a new file.",
        "{{ $value | humanize }} errors in ten minutes in {{ $labels.cluster }}.",
        ("Read the kernel's log of that machine: after a failed fsync nothing on that disk is certain.",),
    )
    forgotten = gauge("canary_violations_open", 'kind="memory-lost"')
    yield Rule(
        "CanaryMemoryLost",
        f"max by (cluster) ({forgotten}) > 0",
        "0s",
        "warning",
        "The canary of {{ $labels.cluster }} has forgotten a time",
        CATALOGUE["memory-lost"].meaning + " " + CATALOGUE["memory-lost"].implies,
        "The violation in {{ $labels.cluster }} says from when to when.",
        (CATALOGUE["memory-lost"].do_first, "It ends when a reconciliation has read everything."),
        kind="memory-lost",
    )
    yield from _nightly()
    yield from _uncovered()


def _unwritable() -> Iterator[Rule]:
    """Where it is not the whole cluster that acknowledges nothing; one that answers nothing is said to be ``blind``."""
    name = "canary_unacknowledged_seconds"
    led = gauge(name, 'leader!="none"')
    leader = f"min by (cluster, leader) ({led}) > {UNWRITABLE_S}"
    silent = gauge("canary_violations_open", 'kind="blind", severity="critical"')
    blind = f"max by (cluster) ({silent}) > 0"
    quiet = f"max by (cluster) ({gauge('canary_quiet', MAINTENANCE)})"
    unless = f"unless on (cluster) ({blind}) unless on (cluster) {quiet}"
    yield Rule(
        "CanaryLeaderUnwritable",
        f"({leader}) {unless}",
        UNWRITABLE_HOLD,
        "critical",
        "Broker {{ $labels.leader }} of {{ $labels.cluster }} takes no writes",
        "No probe partition that the broker leads has acknowledged anything that was sent to it for a minute.",
        "Broker {{ $labels.leader }} of {{ $labels.cluster }}, for {{ $value | humanizeDuration }}.",
        (
            "See whether the broker answers its clients: its disks, its network, its request queue.",
            "See whether its partitions have enough in-sync replicas (min.insync.replicas).",
        ),
    )
    yield Rule(
        "CanaryPartitionUnwritable",
        f"(max by (cluster, topic, partition, leader) ({gauge(name)}) > {UNWRITABLE_S}) "
        f"unless on (cluster, leader) ({leader}) {unless}",
        UNWRITABLE_HOLD,
        "critical",
        "{{ $labels.topic }}-{{ $labels.partition }} of {{ $labels.cluster }} takes no writes",
        "The partition has acknowledged nothing that was sent to it for a minute; others do.",
        "{{ $labels.topic }}-{{ $labels.partition }} in {{ $labels.cluster }}, led by {{ $labels.leader }}, for "
        "{{ $value | humanizeDuration }}.",
        (
            "See whether it has a leader and enough in-sync replicas (min.insync.replicas).",
            "See the runner's log for the client's error: ACLs, quota, record size.",
        ),
    )


def _nightly() -> Iterator[Rule]:
    age = f"time() - (max by (cluster) ({gauge(RECONCILED)}) or max by (cluster) ({gauge(PROBING)}))"
    interval = f"max by (cluster) ({gauge('canary_reconcile_interval_seconds')})"
    advice = (
        "See GET /api/v1/reconciliations for the error of the last run.",
        "If there was none, see whether a scheduler runs (`canary up`, `canary schedule`) that has the cluster.",
        "Ask for one: POST /api/v1/reconciliations.",
    )
    missed = "The last good one of {{ $labels.cluster }}, or the first probe, is {{ $value | humanizeDuration }} ago."
    yield Rule(
        "CanaryReconcileStale",
        f"{age} > {interval} + {NIGHT_S}",
        "0s",
        "warning",
        "{{ $labels.cluster }} was not reconciled last night",
        "No reconciliation has ended well since the one before the last that was due (schedule.reconcile), or ever.",
        missed,
        advice,
    )
    yield Rule(
        "CanaryReconcileMissing",
        f"{age} > 2 * {interval} + {NIGHT_S}",
        "0s",
        "critical",
        "{{ $labels.cluster }} was not reconciled for two nights",
        "Two reconciliations in a row that were due (schedule.reconcile) did not end well, or did not begin. What "
        "expires before the next one is never held against what was promised.",
        missed,
        advice,
    )
    yield Rule(
        "CanaryReconcileUnjudged",
        f"max by (cluster) ({gauge('canary_reconcile_unjudged')}) > 0",
        "10m",
        "warning",
        "Part of {{ $labels.cluster }} could not be reconciled",
        "The last reconciliation had promises without bounds to judge them by.",
        "{{ $value | humanize }} partitions of {{ $labels.cluster }}.",
        ("See which in GET /api/v1/reconciliations; usually they had no leader at the time of the dump.",),
    )


def _uncovered() -> Iterator[Rule]:
    age = gauge("canary_scrub_age_seconds")
    stands = one(f"changes({metric('canary_scrub_position_ratio').name}[3h])")
    yield Rule(
        "CanaryScrubberBehind",
        f"max by (cluster) (({age} > {WEEK_S}) or (({age} > 21600) and ({stands} == 0)))",
        "1h",
        "warning",
        "What {{ $labels.cluster }} retains is not read again in time",
        "The scrubber reads everything retained again and again; it takes more than a week for a round, or stands "
        "still. What vanishes meanwhile is noticed late, or by the nightly reconciliation alone.",
        "The last round of {{ $labels.cluster }} ended {{ $value | humanizeDuration }} ago.",
        (
            "Raise runner.scrub_rate: a round takes what is retained of the probe topics, divided by it.",
            "Or shorten the probe topics' retention; the reconciliation still needs more than a day of it.",
        ),
    )
    expiry = f"{gauge('canary_certificate_expiry_timestamp_seconds')}"
    own = gauge("canary_api_certificate_expiry_timestamp_seconds")
    yield Rule(
        "CanaryCertificateExpiring",
        f"(({expiry} or {own}) - time()) < {2 * WEEK_S}",
        "1h",
        "warning",
        "A certificate of the canary expires{{ with $labels.cluster }} ({{ . }}){{ end }}",
        "When it has expired the canary cannot look any more, or nobody can look at it.",
        "{{ with $labels.certificate }}The {{ . }} certificate{{ else }}The certificate of the API{{ end }} expires in "
        "{{ $value | humanizeDuration }}.",
        (
            "Renew the file. Runners take it up by themselves, the API when it is started again.",
            "The client's and the authority's are named in clusters[].kafka (ssl.*), the API's in api.tls.",
        ),
    )
    yield Rule(
        "CanaryUnverifiedExpiry",
        f"sum by (cluster) ({increase('canary_unverified_expired_total', window='1h')}) > 0",
        "0s",
        "warning",
        "Probes of {{ $labels.cluster }} expired unread",
        "Retention removed acknowledged probes before anybody read them: nobody can say whether they were kept.",
        "{{ $value | humanize }} within an hour in {{ $labels.cluster }}.",
        ("Give the probe topic a longer retention, or find out why consumers are late.",),
    )
    yield Rule(
        "CanaryBrokersWithoutProbe",
        f"max by (cluster) ({gauge('canary_brokers_without_probe')}) > 0",
        "30m",
        "warning",
        "Brokers of {{ $labels.cluster }} are not probed",
        "Some brokers lead no partition of the probe topic: what they alone would lose, nobody would see.",
        "{{ $value | humanize }} brokers of {{ $labels.cluster }}.",
        ("`canary topics plan` says how to spread the probe topic again.",),
    )
    yield Rule(
        "CanaryAuditCritical",
        f"{gauge('canary_audit_findings', CRITICAL)} > 0",
        "10m",
        "warning",
        "{{ $labels.cluster }} is configured to lose data",
        "The configuration audit has critical findings.",
        "{{ $value | humanize }} in {{ $labels.cluster }}.",
        ("`canary audit` names each setting, why it is unsafe, and what to set.",),
    )

"""The rules, run by Prometheus' own promtool: each fires when it should, is silent when it should, and resolves."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from canary.anomalies.catalogue import CATALOGUE
from dashboards.__main__ import GENERATED, ROOT
from dashboards.boards.catalogue import boards
from dashboards.rules import GROUPS, alert_name
from dashboards.rules.anomalies import rings
from dashboards.rules.objectives import BUDGETS
from tests.support.grafana import queries

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

RULES = ROOT / GENERATED / "rules.yml"
REPLICAS = ('instance="a:8080", pod="a", job="canary"', 'instance="b:8080", pod="b", job="canary"')
DESCRIPTIONS = {rule.name: rule for rules in GROUPS.values() for rule in rules}
DAY = 86400
SERVICE = {"service": "kafka-durability-canary"}

Series = dict[str, str]


def promtool() -> str:
    found = os.environ.get("PROMTOOL") or shutil.which("promtool")
    assert found, "promtool is missing: install the package prometheus, or set PROMTOOL"
    return found


def both(name: str, labels: str, values: str) -> Series:
    """The series as two replicas show it."""
    return {f"{name}{{{labels}{', ' if labels else ''}{replica}}}": values for replica in REPLICAS}


def firing(
    alert: str, series: Series, times: dict[str, bool], tmp_path: Path, *, every: str = "15s", where: str = ""
) -> None:
    """Assert whether ``alert`` fires at each time, exactly once whatever the replicas.

    ``every`` is the interval of samples and of evaluations: longer where hours and days are told; ``where`` selects
    among several that may fire at once.
    """
    test: dict[str, Any] = {
        "interval": every,
        "input_series": inputs(series),
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"{where}}}) or vector(0)',
                "eval_time": time,
                "exp_samples": [{"labels": "{}", "value": int(fires)}],
            }
            for time, fires in times.items()
        ],
    }
    promtool_test(test, tmp_path, {alert}, every=every)


def inputs(series: Series) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in series.items()]


@cache
def shipped() -> list[dict[str, Any]]:
    """The groups of rules."""
    groups: list[dict[str, Any]] = yaml.load(RULES.read_text(encoding="utf-8"), yaml.CSafeLoader)["groups"]  # safe, too
    return groups


def needed(rules: list[dict[str, Any]], alerts: set[str]) -> list[dict[str, Any]]:
    """Return the rules of ``alerts``, and those that record what they read, or what is read for that."""
    kept = [rule for rule in rules if rule.get("alert") in alerts]
    read = " ".join(rule["expr"] for rule in kept)
    for rule in reversed(rules):  # what is recorded is read further down
        if "record" in rule and re.search(rf"{rule['record']}\b", read):
            kept.insert(0, rule)
            read += rule["expr"]
    return kept


def promtool_test(test: dict[str, Any], tmp_path: Path, alerts: set[str], *, every: str = "15s") -> None:
    """Run one test on the rules of ``alerts``, which do not see each other: the others only cost time."""
    groups = [group | {"rules": kept} for group in shipped() if (kept := needed(group["rules"], alerts))]
    path, rules = tmp_path / "test.yml", tmp_path / "rules.yml"
    rules.write_text(json.dumps({"groups": groups}))
    path.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": every, "tests": [test]}))
    thrifty = os.environ | {"GOGC": "400"}  # memory for CPU
    command = [promtool(), "test", "rules", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=thrifty)
    assert ran.returncode == 0, ran.stdout + ran.stderr


RINGING = {
    kind: "critical" if "critical" in entry.severities else "warning"
    for kind, entry in CATALOGUE.items()
    if rings(entry)
}
"""The worst severity of each kind that has an alert."""


def test_the_first_violation_of_each_kind_rings_as_its_own_and_its_resolution_ends_it(tmp_path: Path) -> None:
    series: Series = {}
    for kind, severity in RINGING.items():
        labels = f'cluster="prod", kind="{kind}", severity="{severity}"'
        series |= both("canary_violations_open", labels, "0x20 1x60 0x60")
        series |= both("canary_violations_total", labels, "0x20 1x120")
    told = [
        {
            "expr": f'count by (kind, severity) (ALERTS{{alertname="{alert_name(kind)}", alertstate="firing"}})',
            "eval_time": time,
            "exp_samples": [{"labels": f'{{kind="{kind}", severity="{severity}"}}', "value": 1}] if fires else [],
        }
        for kind, severity in RINGING.items()
        for time, fires in {"4m": False, "5m15s": True, "18m": True, "26m": False}.items()
    ]
    test = {"interval": "15s", "input_series": inputs(series), "promql_expr_test": told}
    promtool_test(test, tmp_path, {alert_name(kind) for kind in RINGING})


@pytest.mark.parametrize("kind", ["group-stuck", "group-reset", "group-offsets-expired"])
def test_what_befalls_an_application_warns_and_what_an_operator_meant_does_not(kind: str, tmp_path: Path) -> None:
    found = f'cluster="prod", kind="{kind}", severity="warning"'
    series = both("canary_violations_open", found, "0x20 1x60 0x60") | both(
        "canary_violations_total", found, "0x20 1x120"
    )
    firing(alert_name(kind), series, {"4m": False, "5m15s": True, "18m": True, "26m": False}, tmp_path)
    meant = found.replace("warning", "info")
    series = both("canary_violations_open", meant, "0x20 1x60") | both("canary_violations_total", meant, "0x20 1x60")
    firing(alert_name(kind), series, {"6m": False, "15m": False}, tmp_path)
    assert DESCRIPTIONS[alert_name(kind)].severity == "warning"


def test_a_violation_acknowledged_at_once_still_pages_for_five_minutes(tmp_path: Path) -> None:
    labels = 'cluster="prod", kind="lost-write", severity="critical"'
    series = both("canary_violations_open", labels, "0x100") | both("canary_violations_total", labels, "0x20 1x80")
    firing("CanaryLostWrite", series, {"4m": False, "5m30s": True, "9m30s": True, "11m": False}, tmp_path)


def test_a_replica_that_starts_after_the_violation_does_not_page_again(tmp_path: Path) -> None:
    labels = 'cluster="prod", kind="lost-write", severity="critical"'
    late = {
        f"canary_violations_total{{{labels}, {REPLICAS[0]}}}": "5x100",
        f"canary_violations_total{{{labels}, {REPLICAS[1]}}}": "_x40 5x60",
    }
    firing("CanaryLostWrite", late, {"9m": False, "11m": False, "20m": False}, tmp_path)


def test_a_warning_of_a_kind_that_may_be_critical_is_told_as_a_warning(tmp_path: Path) -> None:
    labels = 'cluster="prod", kind="duplicate", severity="warning"'
    series = both("canary_violations_open", labels, "0x20 1x60") | both("canary_violations_total", labels, "0x20 1x60")
    for severity, fires in (("critical", False), ("warning", True)):
        where = f', severity="{severity}"'
        firing("CanaryDuplicate", series, {"4m": False, "6m": fires, "15m": fires}, tmp_path, where=where)


def beating(until: int, *, total: int = 400, runner: str = "canary-0") -> Series:
    """A heartbeat every 15 s that stops after ``until`` samples."""
    return both(
        "canary_runner_heartbeat_timestamp_seconds",
        f'cluster="prod", runner="{runner}"',
        f"0+15x{until} {until * 15}x{total - until}",
    )


def test_what_comes_and_goes_is_one_page(tmp_path: Path) -> None:
    """A crash loop: it judges now and then, never for long. The page stays until it has judged for five minutes."""
    flaps = both(
        "canary_runner_heartbeat_timestamp_seconds",
        'cluster="prod", runner="canary-0"',
        "0+15x20 300x10 480+15x2 510x10 690+15x60",
    )
    times = {"5m": False, "7m": True, "8m15s": True, "10m": True, "14m": True, "20m": False}
    firing("CanaryRunnerDown", flaps, times, tmp_path)
    waits = "0x20 0+15x8 0x2 0+15x8 0x60"
    series = unwritable({"0 1": waits, "1 1": WELL, "2 2": WELL})
    times = {"6m": False, "7m": True, "7m45s": True, "9m": True, "15m": True, "17m": False}
    firing("CanaryPartitionUnwritable", series, times, tmp_path)


def test_a_dead_runner_pages_and_its_return_ends_it(tmp_path: Path) -> None:
    back = both(
        "canary_runner_heartbeat_timestamp_seconds", 'cluster="prod", runner="canary-0"', "0+15x20 300x20 630+15x40"
    )
    firing("CanaryRunnerDown", back, {"5m": False, "5m45s": False, "6m45s": True, "17m": False}, tmp_path)


def test_one_dead_runner_of_two_is_a_warning_and_no_page(tmp_path: Path) -> None:
    series = beating(20) | beating(400, runner="canary-1")
    firing("CanaryRunnerDown", series, {"10m": False, "30m": False}, tmp_path)
    firing("CanaryRunnerMissing", series, {"5m": False, "20m": True}, tmp_path)


SERVED = "canary_api_cluster_store_up"
OTHER = {
    f'{name}{{{labels}instance="c:8080", pod="c", job="canary"}}': "1x3000"
    for name, labels in {SERVED: 'cluster="other", ', "canary_api_store_up": ""}.items()
}
"""Another canary, with a store and clusters of its own, that the same job of the same Prometheus scrapes."""
ELSEWHERE = ', cluster="prod"'


def test_no_api_at_all_pages(tmp_path: Path) -> None:
    firing("CanaryApiDown", {}, {"1m": False, "4m": True}, tmp_path)
    gone = both("canary_api_store_up", "", "1x20 stale")
    firing("CanaryApiDown", gone, {"5m": False, "2h": False, "3h30m": True}, tmp_path)


def test_a_canary_that_vanished_pages_though_another_one_is_there(tmp_path: Path) -> None:
    """At 10m the API ends; CanaryApiDown asks for any canary, and is silent because of the other one."""
    series = OTHER | both(SERVED, 'cluster="prod"', "1x40 stale")
    times = {"10m": False, "11m": False, "13m": True, "2h": True, "3h20m": False}
    firing("CanaryVanished", series, times, tmp_path, where=ELSEWHERE)
    firing("CanaryVanished", series, {"13m": True}, tmp_path)  # and no other cluster
    firing("CanaryApiDown", series, {"13m": False, "5h": False}, tmp_path)


def test_a_restart_of_the_api_a_gap_and_a_replica_that_goes_page_nobody(tmp_path: Path) -> None:
    restarted = both(SERVED, 'cluster="prod"', "1x40 stale _x5 1x40 _x6 1x400")
    one_left = {f'{SERVED}{{cluster="prod", {REPLICAS[0]}}}': "1x40 stale"}
    one_left |= {f'{SERVED}{{cluster="prod", {REPLICAS[1]}}}': "1x400"}
    for series in (restarted, one_left):
        firing("CanaryVanished", series, {"11m": False, "12m": False, "23m": False, "40m": False}, tmp_path)


def test_an_api_that_comes_and_goes_is_one_page(tmp_path: Path) -> None:
    flaps = both(SERVED, 'cluster="prod"', "1x20 stale _x20 1x8 stale _x20 1x100")
    times = {"6m": False, "9m": True, "11m": True, "13m": True, "17m": True, "23m": False}
    firing("CanaryVanished", flaps, times, tmp_path)


def test_a_store_that_no_replica_reaches_pages_though_another_canary_has_its_own(tmp_path: Path) -> None:
    series = OTHER | both(SERVED, 'cluster="prod"', "1x20 0x20 1x40")
    times = {"5m": False, "7m": True, "14m": False}
    firing("CanaryStoreDown", series, times, tmp_path, where=ELSEWHERE)
    firing("CanaryStoreDown", series, times, tmp_path)  # and no other cluster
    firing("CanaryVanished", series, {"7m": False}, tmp_path)


def test_a_store_that_one_replica_reaches_is_up(tmp_path: Path) -> None:
    series = {
        f'{SERVED}{{cluster="prod", {REPLICAS[0]}}}': "0x40",
        f'{SERVED}{{cluster="prod", {REPLICAS[1]}}}': "1x40",
    }
    firing("CanaryStoreDown", series, {"9m": False}, tmp_path)


def test_the_watchdog_fires_always_and_pages_nobody(tmp_path: Path) -> None:
    firing("CanaryWatchdog", {}, {"0m": True, "1h": True}, tmp_path)
    assert [one.name for one in DESCRIPTIONS.values() if one.severity == "none"] == ["CanaryWatchdog"]


def test_a_cluster_that_acknowledges_nothing_pages(tmp_path: Path) -> None:
    labels = 'cluster="prod", topic="t", partition="0", mode="idempotent"'
    series = beating(400) | both("canary_probes_acked_total", labels, "0+150x20 3000x80 3000+150x80")
    firing("CanaryNothingAcknowledged", series, {"5m": False, "16m": True, "34m": False}, tmp_path)


def test_a_cluster_that_never_acknowledged_pages_from_series_that_stand_at_0(tmp_path: Path) -> None:
    labels = 'cluster="prod", topic="t", partition="0", mode="idempotent"'
    series = beating(400) | both("canary_probes_acked_total", labels, "0x400")
    firing("CanaryNothingAcknowledged", series, {"4m": False, "11m": True, "50m": True}, tmp_path)


def test_a_configured_cluster_that_no_runner_ever_probed_pages(tmp_path: Path) -> None:
    series = both("canary_runner_heartbeat_timestamp_seconds", 'cluster="prod", runner=""', "0x400")
    firing("CanaryRunnerDown", series, {"1m": False, "5m": True, "50m": True}, tmp_path)


def unwritable(partitions: dict[str, str]) -> Series:
    """How long partitions have taken no writes; each by its number and its leader, "0 1"."""
    series: Series = {}
    for place, values in partitions.items():
        partition, leader = place.split()
        labels = f'cluster="prod", topic="t", partition="{partition}", leader="{leader}"'
        series |= both("canary_unacknowledged_seconds", labels, values)
    return series


def test_a_receiver_that_takes_no_notification_is_named_until_it_takes_them(tmp_path: Path) -> None:
    oldest, dropped = "canary_notifications_oldest_seconds", "canary_notifications_dropped_total"
    alert = "CanaryNotificationsWaiting"
    well = both(oldest, 'receiver="chat"', "0x400") | both(dropped, 'receiver="chat"', "0x400")
    behind = well | both(oldest, 'receiver="pager"', "0x20 0+15x60 0x100") | both(dropped, 'receiver="pager"', "0x200")
    firing(alert, behind, {"5m": False, "10m": False, "13m": True, "19m": True, "21m": False}, tmp_path)
    given_up = well | both(oldest, 'receiver="pager"', "0x400") | both(dropped, 'receiver="pager"', "0x20 1x380")
    firing(alert, given_up, {"5m": False, "8m": True, "60m": True, "70m": False}, tmp_path)
    restarted = (
        well | both(oldest, 'receiver="pager"', "0x20 0+15x24 0x100") | both(dropped, 'receiver="pager"', "0x200")
    )
    firing(alert, restarted, {"10m": False, "11m": False, "12m": False}, tmp_path)


RISES, WELL = "0x20 0+15x40 0x40", "0x100"
"""From 5 min on for ten minutes nothing is acknowledged."""


def test_one_partition_that_takes_no_writes_pages_within_two_minutes(tmp_path: Path) -> None:
    series = unwritable({"0 1": RISES, "1 1": WELL, "2 2": WELL})
    firing("CanaryPartitionUnwritable", series, {"5m45s": False, "7m": True, "14m": True, "22m": False}, tmp_path)
    firing("CanaryLeaderUnwritable", series, {"7m": False, "14m": False}, tmp_path)


def test_one_leader_that_takes_no_writes_pages_once_for_all_its_partitions(tmp_path: Path) -> None:
    series = unwritable({"0 1": RISES, "1 1": RISES, "2 2": WELL})
    firing("CanaryLeaderUnwritable", series, {"5m45s": False, "7m": True, "14m": True, "22m": False}, tmp_path)
    firing("CanaryPartitionUnwritable", series, {"7m": False, "14m": False}, tmp_path)


def test_a_canary_that_was_frozen_for_a_minute_pages_nobody(tmp_path: Path) -> None:
    """Its first view after that counts the time in which it could not hear an answer."""
    series = unwritable({"0 1": "0x20 70 0x40", "1 2": "0x20 70 0x40", "2 2": WELL})
    for alert in ("CanaryLeaderUnwritable", "CanaryPartitionUnwritable"):
        firing(alert, series, {"5m15s": False, "5m20s": False, "5m30s": False}, tmp_path)


def test_a_partition_without_a_leader_pages_as_itself(tmp_path: Path) -> None:
    series = unwritable({"0 none": RISES, "1 1": WELL})
    firing("CanaryPartitionUnwritable", series, {"7m": True, "22m": False}, tmp_path)


@pytest.mark.parametrize(
    "instead",
    [
        both("canary_violations_open", 'cluster="prod", kind="blind", severity="critical"', "1x100"),
        both("canary_quiet", 'cluster="prod", reason="maintenance"', "1x100"),
    ],
)
def test_what_is_planned_or_said_of_the_whole_cluster_is_not_said_of_its_leaders(
    instead: Series, tmp_path: Path
) -> None:
    series = unwritable({"0 1": RISES, "1 1": WELL, "2 2": RISES}) | instead
    firing("CanaryPartitionUnwritable", series, {"7m": False, "14m": False}, tmp_path)
    firing("CanaryLeaderUnwritable", series, {"7m": False, "14m": False}, tmp_path)


GAUGES = {
    "CanaryUnseenGrowing": (
        "canary_unseen_oldest_seconds",
        'cluster="prod", topic="t", partition="0", consumer="read_committed"',
        "0x20 90x40 0x100",
    ),
    "CanaryLedgerPending": ("canary_ledger_pending_rows", 'cluster="prod"', "0x20 20000x40 0x100"),
    "CanaryPartFailing": ("canary_part_failing", 'cluster="prod", part="ledger /data"', "0x20 1x40 0x100"),
    "CanaryMemoryLost": (
        "canary_violations_open",
        'cluster="prod", kind="memory-lost", severity="warning"',
        "0x20 1x40 0x100",
    ),
    "CanaryReconcileUnjudged": ("canary_reconcile_unjudged", 'cluster="prod"', "0x20 2x80 0x100"),
    "CanaryDigestUnknown": ("canary_digest_unknown", 'cluster="prod"', "0x20 2x80 0x100"),
    "CanaryReceiptsUnknown": ("canary_receipts_unknown", 'cluster="prod"', "0x20 2x80 0x100"),
    "CanaryBrokersWithoutProbe": ("canary_brokers_without_probe", 'cluster="prod"', "0x20 1x160 0x100"),
    "CanaryModeSilent": ("canary_mode_silent", 'cluster="prod", topic="t", mode="relay"', "0x20 3x40 0x100"),
    "CanarySuspicionsStay": ("canary_suspects", 'cluster="prod", kind="lost-write"', "0x20 2x80 0x100"),
    "CanaryAuditCritical": ("canary_audit_findings", 'cluster="prod", severity="critical"', "0x20 1x80 0x100"),
    "CanaryGroupsUnknown": ("canary_groups_unknown", 'cluster="prod"', "0x20 2x80 0x100"),
    "CanaryEpochsUnknown": ("canary_epochs_unknown", 'cluster="prod"', "0x20 3x80 0x100"),
    "CanaryQuorumUnknown": ("canary_quorum_unknown", 'cluster="prod"', "0x20 1x80 0x100"),
    "CanaryControllerBehind": (
        "canary_quorum_voter_behind_seconds",
        'cluster="prod", node="3001"',
        "0x20 90x80 0x100",
    ),
    "CanaryReplicasUnknown": ("canary_replicas_unknown", 'cluster="prod"', "0x20 1x320 0x100"),
    "CanaryMirrorUnknown": ("canary_mirror_unknown", 'cluster="prod", source="dc1", topic="t"', "0x20 1x80 0x100"),
    "CanaryTransactionsUnknown": ("canary_transactions_unknown", 'cluster="prod"', "0x20 1x80 0x100"),
}


@pytest.mark.parametrize("alert", GAUGES)
def test_a_gauge_that_stays_bad_fires_and_resolves(alert: str, tmp_path: Path) -> None:
    name, labels, values = GAUGES[alert]
    bad = int(values.split()[1].split("x")[1]) / 4 + 5
    over = int(bad) + 5 + int(DESCRIPTIONS[alert].keep.removesuffix("0s").removesuffix("m") or 0)
    times = {"5m": False, f"{int(bad)}m": True, f"{over}m": False}
    firing(alert, both(name, labels, values), times, tmp_path)


def test_a_mirror_that_is_further_behind_than_its_bound_fires_and_one_within_it_does_not(tmp_path: Path) -> None:
    labels = 'cluster="prod", source="dc1", topic="t"'
    bound = both("canary_mirror_recovery_point_objective_seconds", labels, "60x200")
    behind = both("canary_mirror_recovery_point_seconds", labels, "5x20 90x60 5x40")
    firing("CanaryMirrorBehind", bound | behind, {"5m": False, "12m": True, "22m": True, "28m": False}, tmp_path)
    unknown = both("canary_mirror_recovery_point_seconds", labels, "50x20 _x100")
    firing("CanaryMirrorBehind", bound | unknown, {"5m": False, "20m": False}, tmp_path)


COUNTERS = {
    "CanaryLedgerErrors": ("canary_ledger_errors_total", 'cluster="prod"', 10),
    "CanaryUnverifiedExpiry": (
        "canary_unverified_expired_total",
        'cluster="prod", topic="t", partition="0", mode="idempotent"',
        60,
    ),
}


@pytest.mark.parametrize("alert", COUNTERS)
def test_a_counter_that_rises_fires_and_resolves(alert: str, tmp_path: Path) -> None:
    name, labels, minutes = COUNTERS[alert]
    series = both(name, labels, "0x20 3x400")
    firing(alert, series, {"5m": False, "6m": True, f"{minutes + 7}m": False}, tmp_path)


STALE, MISSING = "CanaryReconcileStale", "CanaryReconcileMissing"
LAST, PROBING = "canary_reconcile_last_success_timestamp_seconds", "canary_probing_since_timestamp_seconds"


def scheduled(every_h: int) -> Series:
    return both("canary_reconcile_interval_seconds", 'cluster="prod"', f"{every_h * 3600}x2000")


@pytest.mark.parametrize("base", [LAST, PROBING])
def test_a_missed_night_warns_and_a_second_one_pages_also_where_there_never_was_a_good_one(
    base: str, tmp_path: Path
) -> None:
    series = scheduled(24) | both(base, 'cluster="prod"', "0x2000")
    firing(STALE, series, {"25h50m": False, "26h10m": True}, tmp_path, every="2m")
    firing(MISSING, series, {"49h50m": False, "50h10m": True}, tmp_path, every="2m")


def test_a_good_night_ends_it_and_counts_from_its_end_not_from_when_probing_began(tmp_path: Path) -> None:
    last = both(LAST, 'cluster="prod"', f"_x810 {27 * 3600}x1200")
    series = scheduled(24) | last | both(PROBING, 'cluster="prod"', "0x2000")
    firing(STALE, series, {"26h30m": True, "27h10m": False, "52h50m": False, "53h10m": True}, tmp_path, every="2m")


def test_it_goes_by_the_schedule_that_is_set(tmp_path: Path) -> None:
    base = both(LAST, 'cluster="prod"', "0x2000")
    firing(STALE, base | scheduled(6), {"7h50m": False, "8h10m": True}, tmp_path, every="2m")
    firing(STALE, base, {"60h": False}, tmp_path, every="2m")  # nothing is scheduled
    weekly = base | scheduled(7 * 24)
    firing(STALE, weekly, {"60h": False}, tmp_path, every="2m")


def test_nights_that_nobody_asks_for_or_does_are_not_missed(tmp_path: Path) -> None:
    """Without Spark, and with the default schedule, the API exports no time between two nights."""
    young = both(PROBING, 'cluster="prod"', "0x2000")
    for alert in (STALE, MISSING):
        firing(alert, young, {"26h10m": False, "50h10m": False, "60h": False}, tmp_path, every="2m")
    firing(MISSING, young | scheduled(24), {"49h50m": False, "50h10m": True}, tmp_path, every="2m")


@pytest.mark.parametrize(
    ("alert", "metric", "times"),
    [
        ("CanaryDigestStale", "digest", {"110h": False, "125h50m": False, "126h10m": True}),
        ("CanaryReceiptsStale", "receipts", {"110h": False, "125h50m": False, "126h10m": True}),
        ("CanaryDrillOverdue", "drill", {"110h": False, "291h": False, "294h": True}),
    ],
)
def test_what_was_never_done_is_overdue_since_probing_began_and_only_where_it_is_asked_for(
    alert: str, metric: str, times: dict[str, bool], tmp_path: Path
) -> None:
    began = scheduled(24) | both(PROBING, 'cluster="prod"', f"_x1000 {100 * 3600}x2000")
    never = both(f"canary_{metric}_last_success_timestamp_seconds", 'cluster="prod"', "_x1000 0x2000")
    interval = both("canary_reconcile_interval_seconds", 'cluster="prod"', "86400x3000")
    firing(alert, began | interval | never, times, tmp_path, every="6m")
    firing(alert, began | interval, dict.fromkeys(times, False), tmp_path, every="6m")


@pytest.mark.parametrize(("alert", "metric"), [("CanaryDigestStale", "digest"), ("CanaryReceiptsStale", "receipts")])
def test_digests_and_checks_of_receipts_that_were_not_made_last_night_are_said(
    alert: str, metric: str, tmp_path: Path
) -> None:
    made = both(f"canary_{metric}_last_success_timestamp_seconds", 'cluster="prod"', f"0x810 {27 * 3600}x1200")
    times = {"25h50m": False, "26h10m": True, "27h10m": False, "52h50m": False, "53h10m": True}
    firing(alert, scheduled(24) | made, times, tmp_path, every="2m")


def test_a_test_of_the_alarm_pages_while_it_is_open(tmp_path: Path) -> None:
    series = both("canary_violations_open", 'cluster="prod", kind="alert-test", severity="critical"', "0x20 1x20 0x20")
    firing("CanaryAlertTest", series, {"4m": False, "6m": True, "14m": False}, tmp_path)


def test_a_drill_pages_as_a_drill_also_in_a_planned_window(tmp_path: Path) -> None:
    series = both("canary_violations_open", 'cluster="prod", kind="drill", severity="critical"', "0x20 1x20 0x20")
    series |= both("canary_quiet", 'cluster="prod", reason="maintenance"', "1x80")
    firing("CanaryDrill", series, {"4m": False, "6m": True, "14m": False}, tmp_path)


def test_an_alarm_that_was_not_proven_for_eight_days_is_said_and_one_that_never_was(tmp_path: Path) -> None:
    name = "canary_drill_last_success_timestamp_seconds"
    proven = both(name, 'cluster="prod"', f"{60}x2000")
    firing("CanaryDrillOverdue", proven, {"191h": False, "194h": True}, tmp_path, every="6m")
    again = both(name, 'cluster="prod"', f"60x1900 {7 * 86_400}x100")
    firing("CanaryDrillOverdue", again, {"194h": False}, tmp_path, every="6m")
    never = both(name, 'cluster="prod"', "0x2000")
    firing("CanaryDrillOverdue", never, {"191h": False, "194h": True}, tmp_path, every="6m")


def test_a_share_that_nobody_probes_pages_and_a_cluster_that_nobody_probes_pages_once(tmp_path: Path) -> None:
    missing = both("canary_shards_missing", 'cluster="prod"', "0x20 1x40 0x40")
    times = {"5m": False, "8m": True, "17m": False}
    firing("CanaryShardMissing", beating(400) | missing, times, tmp_path)
    firing(
        "CanaryShardMissing",
        beating(20) | both("canary_shards_missing", 'cluster="prod"', "0x20 3x80"),
        {"12m": False},
        tmp_path,
    )


def test_a_store_that_is_told_late_is_said_and_a_dead_runner_is_not_that(tmp_path: Path) -> None:
    name, labels = "canary_runner_heartbeat_timestamp_seconds", 'cluster="prod", runner="canary-0"'
    late = both(name, labels, "0+15x20 270+15x40 930+15x40")  # 45 s late from 5 min 15 s to 15 min 15 s
    firing("CanaryStoreBehind", late, {"5m": False, "9m": True, "22m": False}, tmp_path)
    firing("CanaryStoreBehind", beating(20), {"6m": False, "8m": False, "20m": False}, tmp_path)


def test_a_store_that_takes_no_write_is_said_as_long_as_it_is_so_and_no_dead_runner(tmp_path: Path) -> None:
    """Another installation's store changes nothing; a replica that can write to the same one shows the runner dead."""
    unwritable = both("canary_api_store_writable", 'cluster="prod"', "1x20 0x200")
    silent = beating(20) | unwritable
    other = {name.replace("8080", "9090").replace("prod", "other"): one for name, one in beating(20).items()}
    other |= {'canary_api_store_writable{instance="a:9090", pod="a", cluster="other"}': "1x220"}
    for alert, cluster in (("CanaryStoreBehind", "prod"), ("CanaryRunnerDown", "other")):
        times = {"5m": False, "8m": True, "20m": True, "50m": True}
        firing(alert, silent | other, times, tmp_path, where=f', cluster="{cluster}"')
        firing(alert, silent | other, dict.fromkeys(times, False), tmp_path, where=f', cluster!="{cluster}"')
    firing("CanaryStoreDown", silent | other, {"5m": False, "8m": True, "50m": True}, tmp_path)
    firing("CanaryStoreDown", beating(220) | unwritable, {"8m": False, "50m": False}, tmp_path)
    one_of_two = beating(20) | {'canary_api_store_writable{instance="a:8080", pod="a", cluster="prod"}': "0x220"}
    one_of_two |= {'canary_api_store_writable{instance="b:8080", pod="b", cluster="prod"}': "1x220"}
    firing("CanaryRunnerDown", one_of_two, {"5m": False, "8m": True, "50m": True}, tmp_path)
    firing("CanaryStoreBehind", one_of_two, {"8m": False, "50m": False}, tmp_path)


def test_a_scrubber_that_takes_more_than_a_week_or_stands_still_is_said(tmp_path: Path) -> None:
    labels = 'cluster="prod", topic="t", partition="0"'
    age, ratio = "canary_scrub_age_seconds", "canary_scrub_position_ratio"
    slow = both(age, labels, "600000+120x125 0x50") | both(ratio, labels, "0+0.001x175")
    firing("CanaryScrubberBehind", slow, {"1h": False, "3h": True, "4h30m": False}, tmp_path, every="2m")
    busy = both(age, labels, "0+120x300") | both(ratio, labels, "0+0.001x300")
    firing("CanaryScrubberBehind", busy, {"5h": False, "9h": False}, tmp_path, every="2m")
    still = both(age, labels, "0+120x300") | both(ratio, labels, "0.5x300")
    firing("CanaryScrubberBehind", still, {"6h": False, "7h30m": True}, tmp_path, every="2m")


def test_old_records_that_no_read_can_have_for_hours_are_said_and_a_restart_is_not(tmp_path: Path) -> None:
    name, topic = "canary_random_reads_total", 'cluster="prod", topic="t", outcome='
    away = both(name, f'{topic}"answered"', "0+1x20 20x100 21+1x30") | both(
        name, f'{topic}"unanswered"', "0x20 0+1x99 99x31"
    )
    firing("CanaryRandomReadsUnanswered", away, {"2h": False, "6h": True, "11h": False}, tmp_path, every="5m")
    rolling = both(name, f'{topic}"answered"', "0+1x150") | both(name, f'{topic}"unanswered"', "0x20 0+1x9 9x120")
    firing("CanaryRandomReadsUnanswered", rolling, {"2h30m": False, "4h": False}, tmp_path, every="5m")
    young = both(name, f'{topic}"answered"', "_x60 0x60") | both(name, f'{topic}"unanswered"', "_x60 0+1x60")
    firing("CanaryRandomReadsUnanswered", young, {"5h30m": False, "6h20m": False, "7h": True}, tmp_path, every="5m")
    off = both(name, f'{topic}"answered"', "0x150") | both(name, f'{topic}"unanswered"', "0x150")
    firing("CanaryRandomReadsUnanswered", off, {"4h": False, "10h": False}, tmp_path, every="5m")
    once = both(name, f'{topic}"answered"', "0x150") | both(name, f'{topic}"unanswered"', "0x20 1x130")
    firing("CanaryRandomReadsUnanswered", once, {"2h": False, "4h": False}, tmp_path, every="5m")


@pytest.mark.parametrize(
    "series",
    [
        ("canary_certificate_expiry_timestamp_seconds", 'cluster="prod", certificate="client"'),
        ("canary_api_certificate_expiry_timestamp_seconds", ""),
    ],
)
def test_a_certificate_that_expires_within_two_weeks_is_said(series: tuple[str, str], tmp_path: Path) -> None:
    expires = 14 * DAY + 3600
    firing(
        "CanaryCertificateExpiring",
        both(*series, f"{expires}x125 {400 * DAY}x25"),
        {"1h30m": False, "2h15m": True, "4h30m": False},
        tmp_path,
        every="2m",
    )


def test_a_certificate_of_an_api_that_expires_is_said_though_that_of_another_canary_is_valid(tmp_path: Path) -> None:
    name = "canary_api_certificate_expiry_timestamp_seconds"
    series = both(name, "", f"{DAY}x125") | {f'{name}{{instance="c:8080", job="canary"}}': f"{400 * DAY}x125"}
    firing("CanaryCertificateExpiring", series, {"2h15m": True}, tmp_path, every="2m")


def test_an_alert_leads_to_the_incident_the_status_page_and_the_runbook(tmp_path: Path) -> None:
    series = both("canary_api_info", 'url="https://canary.example"', "1x40")
    series |= both("canary_violations_open", 'cluster="prod eu", kind="lost-write", severity="critical"', "2x40")
    series |= both("canary_ledger_pending_rows", 'cluster="prod eu"', "20000x40")
    for number, (about, when) in enumerate({"data": 1_790_000_000, "unavailability": 1_790_000_060}.items()):
        place = f'cluster="prod eu", incident="i{number}"'
        series |= both("canary_incident_info", f'{place}, class="{about}", summary="9 writes, x {{{{ 1 }}}}"', "4x40")
        series |= both("canary_incident_begin_timestamp_seconds", f'{place}, topic="t", partition="0"', f"{when}x40")
    loss, pending = DESCRIPTIONS["CanaryLostWrite"], DESCRIPTIONS["CanaryLedgerPending"]
    labels = {"cluster": "prod eu", "job": "canary"}
    fact = "t-0, since 2026-09-21 14:13:20 +0000 UTC: 9 writes, x {{ 1 }} https://canary.example/incidents/i0"
    tests = [
        {
            "alertname": "CanaryLostWrite",
            "eval_time": "5m",
            "exp_alerts": [
                {
                    "exp_labels": labels | {"kind": "lost-write", "severity": "critical", "class": "data"} | SERVICE,
                    "exp_annotations": {
                        "summary": "Lost write in prod eu",
                        "description": f"{loss.meaning} 2 records open or new in prod eu. Its incidents:\n{fact}",
                        "runbook_url": "https://canary.example/runbooks/CanaryLostWrite?cluster=prod+eu",
                        "incident_url": "https://canary.example/alerts/CanaryLostWrite?cluster=prod+eu",
                    },
                }
            ],
        },
        {
            "alertname": "CanaryLedgerPending",
            "eval_time": "5m",
            "exp_alerts": [
                {
                    "exp_labels": labels | {"severity": "warning", "class": "warning"} | SERVICE,
                    "exp_annotations": {
                        "summary": "The canary's disk of prod eu is slow",
                        "description": f"{pending.meaning} 20k wait in prod eu.",
                        "runbook_url": "https://canary.example/runbooks/CanaryLedgerPending?cluster=prod+eu",
                        "status_url": "https://canary.example/",
                    },
                }
            ],
        },
    ]
    test = {"interval": "15s", "input_series": inputs(series), "alert_rule_test": tests}
    promtool_test(test, tmp_path, set(DESCRIPTIONS))


def test_every_alert_is_tried() -> None:
    tried = {alert_name(kind) for kind in RINGING} | set(GAUGES) | set(COUNTERS)
    tried |= {
        "CanaryAlertTest",
        "CanaryMirrorBehind",
        "CanaryDigestStale",
        "CanaryReceiptsStale",
        "CanaryGroupStuck",
        "CanaryGroupReset",
        "CanaryGroupOffsetsExpired",
        "CanaryNotificationsWaiting",
        "CanaryDrill",
        "CanaryDrillOverdue",
        "CanaryCertificateExpiring",
        "CanaryScrubberBehind",
        "CanaryRandomReadsUnanswered",
        "CanaryShardMissing",
        "CanaryStoreBehind",
        "CanaryRunnerDown",
        "CanaryRunnerMissing",
        "CanaryApiDown",
        "CanaryVanished",
        "CanaryWatchdog",
        "CanaryStoreDown",
        "CanaryNothingAcknowledged",
        "CanaryLeaderUnwritable",
        "CanaryPartitionUnwritable",
    }
    tried |= {  # test_slowness_rules
        "CanaryRackUnwritable",
        "CanaryLeaderSlow",
        "CanaryClusterSlow",
        "CanaryCoordinatorSlow",
        "CanaryCoordinatorUnavailable",
        "CanaryBrokerUnreachable",
    }
    assert tried | {STALE, MISSING} == set(DESCRIPTIONS) - {rule.name for rule in BUDGETS}


def test_every_panel_asks_in_promql_that_is_understood(tmp_path: Path) -> None:
    asked = [expression for board in boards().values() for expression in queries(json.loads(board))]
    assert len(asked) > 70
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(asked)]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    ran = subprocess.run([promtool(), "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr

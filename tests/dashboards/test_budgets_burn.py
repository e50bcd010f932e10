"""The error budgets, run by promtool from counters to alerts: what spends them, what does not, and what is unknown."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest

from canary.metrics.objectives import OBJECTIVES
from dashboards.rules.objectives import BUDGETS
from tests.dashboards.test_rules_fire import both, inputs, promtool_test

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.dashboards.test_rules_fire import Series

    Trouble = Callable[[int], tuple[str, float]]
    """Returns, of a sample's number, which objective is in trouble, and for which share of the events."""

pytestmark = pytest.mark.e2e

FAST, SLOW, STEADY, MISSED, UNKNOWN = (rule.name for rule in BUDGETS)
RATE = 600
"""Events between two samples."""
SLOWEST = {"produce": ("0.5",), "end_to_end": ("1.0", "30.0"), "commit": ("1.0",)}
"""The bounds of each histogram, as labels."""


def healthy(_: int) -> tuple[str, float]:
    return "", 0


def during(start: int, length: int, what: str, share: float = 1) -> Trouble:
    return lambda at: (what, share) if start <= at < start + length else ("", 0)


def counter(increments: list[float]) -> str:
    return " ".join(f"{value:g}" for value in accumulate([0.0, *increments]))


def traffic(cluster: str, samples: int, trouble: Trouble = healthy, *, topic: str = "t", rate: float = RATE) -> Series:
    """A topic's counters. In trouble of availability writes have no room, in that of freshness none is read."""
    told = [trouble(at) for at in range(samples)]
    bad = {name: [rate * share * (what == name) for what, share in told] for name in (*OBJECTIVES, "frozen")}
    unsent = [a + b for a, b in zip(bad["availability"], bad["frozen"], strict=True)]
    sent = [rate - one for one in unsent]
    read, late, waiting = [], [], [0.0]
    for at, one in enumerate(sent):
        more = bad["freshness"][at]
        backlog = 0 if more else waiting[-1]
        late.append(backlog)
        read.append(one - more + backlog)
        waiting.append(waiting[-1] + more - backlog)
    place = f'cluster="{cluster}", topic="{topic}", partition="0"'
    mode, reader = f'{place}, mode="idempotent"', f'{place}, consumer="read_committed"'
    series = both("canary_probes_sent_total", mode, counter(sent))
    series |= both("canary_probes_acked_total", mode, counter(sent))
    series |= both("canary_probes_skipped_total", mode, counter(unsent))
    series |= both("canary_probes_late_total", mode, counter(bad["frozen"]))
    series |= both("canary_unseen_probes", reader, " ".join(f"{one:g}" for one in waiting))

    def histogram(name: str, labels: str, everything: list[float], within: dict[str, list[float]]) -> Series:
        found = both(f"{name}_bucket", f'{labels}, le="+Inf"', counter(everything))
        for le, few in within.items():
            found |= both(f"{name}_bucket", f'{labels}, le="{le}"', counter(few))
        return found

    def less(some: list[float], *others: list[float]) -> list[float]:
        return [one - sum(more) for one, *more in zip(some, *others, strict=True)]

    series |= histogram("canary_produce_latency_seconds", mode, sent, {"0.5": less(sent, bad["produce"])})
    within = {"30.0": less(read, late), "1.0": less(read, late, bad["end_to_end"])}
    series |= histogram("canary_end_to_end_latency_seconds", reader, read, within)
    commits = [rate] * samples
    labels = f'cluster="{cluster}", mode="transactional"'
    return series | histogram(
        "canary_transaction_latency_seconds", labels, commits, {"1.0": less(commits, bad["commit"])}
    )


def asked(cluster: str, samples: int, days: int = 30) -> Series:
    """The objectives as the API exports them."""
    series = both("canary_objective_window_seconds", f'cluster="{cluster}"', f"{days * 86_400}x{samples}")
    for kind in OBJECTIVES.values():
        labels = f'cluster="{cluster}", objective="{kind.name}"'
        series |= both("canary_objective_target_ratio", labels, f"{kind.target}x{samples}")
        if kind.bound_s is not None:
            bound = f'{labels}, bucket="{float(kind.bound_s)!r}"'
            series |= both("canary_objective_bound_seconds", bound, f"{kind.bound_s:g}x{samples}")
    return series


def story(cluster: str, samples: int, trouble: Trouble = healthy, days: int = 30) -> Series:
    return asked(cluster, samples, days) | traffic(cluster, samples, trouble)


@dataclass
class Stories:
    """Clusters that live through different things at once, and when what rings of each: one run of promtool for all."""

    every: str
    samples: int
    series: Series = field(default_factory=dict)
    told: list[dict[str, Any]] = field(default_factory=list)
    alerts: set[str] = field(default_factory=set)

    def add(self, cluster: str, series: Series, alerts: dict[str, dict[str, int]]) -> None:
        """``alerts``: by the alert (and further labels), at which times how many fire."""
        self.series |= series
        for alert, times in alerts.items():
            name, _, more = alert.partition(" ")
            self.alerts.add(name)
            where = f'alertname="{name}", alertstate="firing", cluster="{cluster}"{more and ", " + more}'
            self.told += [
                {
                    "expr": f"count(ALERTS{{{where}}}) or vector(0)",
                    "eval_time": time,
                    "exp_samples": [{"labels": "{}", "value": number}],
                }
                for time, number in times.items()
            ]

    def run(self, tmp_path: Path) -> None:
        test = {"interval": self.every, "input_series": inputs(self.series), "promql_expr_test": self.told}
        promtool_test(test, tmp_path, self.alerts, every=self.every)


def silent(*times: str) -> dict[str, dict[str, int]]:
    return {alert: dict.fromkeys(times, 0) for alert in (FAST, SLOW, STEADY, MISSED, UNKNOWN)}


def test_outages_of_minutes_page_for_what_they_spend_and_end(tmp_path: Path) -> None:
    told = Stories("1m", 180)
    for objective in OBJECTIVES:
        fires = {"89m": 0, "102m": 1, "112m": 1, "140m": 0}
        told.add(
            objective,
            story(objective, 180, during(90, 15, objective)),
            {f'{FAST} objective="{objective}"': fires, UNKNOWN: {"112m": 0}},
        )
    name = "an outage that comes and goes is one page, within two minutes"
    comes_and_goes: Trouble = lambda at: ("availability", float(90 <= at < 130 and (at - 90) % 12 < 3))  # noqa: E731
    times = {"90m": 0, "93m": 1, "100m": 1, "107m": 1, "119m": 1, "131m": 1, "160m": 0}
    told.add(name, story(name, 180, comes_and_goes), {FAST: times})
    name = "one topic of little traffic rings with its name"
    small = traffic(name, 180, during(90, 20, "availability"), topic="small", rate=2)
    told.add(name, story(name, 180) | small, {FAST: {"105m": 1}, f'{FAST} topic="small"': {"105m": 1}})
    name = "a topic does not ring where its cluster does"
    small = traffic(name, 180, during(90, 20, "availability"), topic="small", rate=2)
    bad = story(name, 180, during(90, 20, "availability")) | small
    told.add(name, bad, {f'{FAST} topic="small"': {"105m": 0}, f'{FAST} objective="availability"': {"105m": 1}})
    name = "a canary that was just started pages for an outage"
    told.add(name, story(name, 180, during(0, 20, "availability")), {FAST: {"10m": 1}})
    told.run(tmp_path)


def test_what_is_no_fault_of_the_cluster_or_too_little_is_silent(tmp_path: Path) -> None:
    told, times = Stories("1m", 180), ("30m", "67m", "72m", "96m", "105m", "115m", "120m", "130m", "170m")
    restarts = {60: "produce", 61: "end_to_end", 65: "produce", 66: "end_to_end", 70: "produce", 71: "end_to_end"}
    name = "three brokers restart, each is away for 20 s and makes a third of the writes slow"
    told.add(name, story(name, 180, lambda at: (restarts.get(at, ""), 0.12)), silent(*times))
    name = "the canary was frozen"
    told.add(name, story(name, 180, during(90, 5, "frozen")), silent(*times))
    name = "the first minutes of a canary are no hour"
    told.add(name, story(name, 180, during(2, 2, "availability", 0.2)), silent("4m", "6m", "20m"))
    name = "what is planned spends nothing"
    planned = both("canary_quiet", f'cluster="{name}", reason="maintenance"', "_x85 1x31 _x64")
    told.add(name, story(name, 180, during(90, 20, "availability")) | planned, silent(*times))
    name = "a mode that fails on purpose spends nothing"
    zombie = f'cluster="{name}", topic="z", partition="0", mode="fencing"'
    fenced = both("canary_probes_sent_total", zombie, counter([RATE] * 180))
    fenced |= both("canary_probes_acked_total", zombie, "0x180")
    told.add(name, story(name, 180) | fenced, silent(*times))
    name = "what was never probed is not met and not missed"
    told.add(name, asked(name, 180), silent(*times))
    name = "what is not asked for rings nothing"
    told.add(name, traffic(name, 180, during(90, 60, "availability")), silent(*times))
    told.run(tmp_path)


def test_without_events_it_is_unknown_and_neither_met_nor_missed(tmp_path: Path) -> None:
    told, name = Stories("1m", 300), "prod"
    stops = during(120, 110, "frozen")  # nothing is sent, and nothing is due
    alerts = {
        f'{UNKNOWN} objective="{objective}"': {"119m": 0, "200m": 1, "260m": 0}
        for objective in ("availability", "freshness", "produce", "end_to_end")
    }
    told.add(name, story(name, 300, stops), alerts | {MISSED: {"200m": 0}, FAST: {"200m": 0}})
    told.run(tmp_path)


def test_little_trouble_for_hours_pages_and_is_not_the_fast_one(tmp_path: Path) -> None:
    told, name = Stories("1m", 620), "prod"
    series = story(name, 620, during(200, 250, "availability", 0.012))
    times = {"360m": 0, "420m": 1, "455m": 1, "530m": 0}
    told.add(name, series, {SLOW: times, FAST: {"420m": 0, "455m": 0}})
    told.run(tmp_path)


def test_trouble_that_spends_the_budget_before_its_time_is_a_ticket_once_half_of_the_window_is_known(
    tmp_path: Path,
) -> None:
    told, name = Stories("2m", 1300), "prod"
    series = story(name, 1300, during(0, 1100, "availability", 0.005))
    told.add(name, series, {STEADY: {"34h": 0, "36h30m": 1, "43h": 0}, SLOW: {"36h": 0}, MISSED: {"36h": 0}})
    told.run(tmp_path)


def test_an_outage_of_a_canary_that_is_minutes_old_rings_for_its_hour_and_for_no_window_that_was_not_there(
    tmp_path: Path,
) -> None:
    """81 s of the 43 minutes that 30 days allow are 3.1 %. It starts at 4 min, a minute before a step of averages."""
    told, name = Stories("15s", 120), "young"
    outage: Trouble = lambda at: ("availability", 1.0 if 11 <= at < 16 else 0.4 if at == 16 else 0.0)  # noqa: E731
    series = {one: f"_x16 {values}" for one, values in story(name, 120, outage).items()}
    silence = {f"{minute}m": 0 for minute in range(7, 26)}
    told.add(name, series, {FAST: {"10m": 1, "14m": 1}, SLOW: silence, STEADY: silence})
    fast = next(rule for rule in BUDGETS if rule.name == FAST)
    told.told += [
        {
            "expr": f"count(0.025 < ({fast.expression}) < 0.045)",
            "eval_time": time,
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for time in ("10m", "11m", "12m")
    ]
    told.run(tmp_path)


def test_a_slow_burn_rings_once_half_of_its_six_hours_are_known(tmp_path: Path) -> None:
    told, name = Stories("1m", 370), "six hours old"
    series = story(name, 370, during(0, 370, "availability", 0.013))
    told.add(name, series, {SLOW: {"2h30m": 0, "2h50m": 0, "3h20m": 1, "6h": 1}, FAST: {"6h": 0}})
    told.run(tmp_path)


def test_an_alert_says_which_share_of_the_budget_went_as_it_was_measured(tmp_path: Path) -> None:
    """Of the 2,592 s that 30 days allow at 99.9 % an outage of 15 min is 35 %, at 99.5 % 7 %; rates lag at its end."""
    series, fast = story("prod", 120, during(90, 15, "availability")), next(r for r in BUDGETS if r.name == FAST)
    spent = "% of the error budget of availability of prod went within 1h"
    for one in [name for name in series if name.startswith("canary_objective_target_ratio")]:
        if "availability" not in one:
            del series[one]
    for target, share in (("0.999", "34.15"), ("0.995", "6.831")):
        for one in [name for name in series if name.startswith("canary_objective_target_ratio")]:
            series[one] = f"{target}x120"
        said = {"summary": f"{share}{spent}", "description": f"{fast.meaning} {share}{spent}."}
        labels = {"cluster": "prod", "objective": "availability", "severity": "critical"}
        expected = {
            "exp_labels": labels | {"class": "unavailability", "service": "kafka-durability-canary"},
            "exp_annotations": said | {"runbook_url": "", "status_url": ""},
        }
        test = {
            "interval": "1m",
            "input_series": inputs(series),
            "alert_rule_test": [{"alertname": FAST, "eval_time": "112m", "exp_alerts": [expected]}],
        }
        promtool_test(test, tmp_path, {FAST}, every="1m")


def test_a_budget_that_is_spent_is_said_by_the_window_of_the_cluster(tmp_path: Path) -> None:
    """0.1 % of 7 days are 10 minutes, of 30 days 43; what is not known yet is not held to be good or bad."""
    told, samples = Stories("2m", 400), 400
    for days, minutes in ((7, 14), (30, 50)):
        name = f"enough for {days} days"
        enough = story(name, samples, during(150, minutes // 2, "availability"), days)
        told.add(name, enough, {MISSED: {"4h50m": 0, "7h30m": 1, "12h": 1}})
        name = f"too little for {days} days"
        told.add(
            name,
            story(name, samples, during(150, minutes // 4, "availability"), days),
            {MISSED: {"7h30m": 0, "12h": 0}},
        )
    name = "an objective that asks for less is not missed any more"
    series = story(name, samples, during(150, 7, "availability"), 7)
    for one in series:
        if one.startswith("canary_objective_target_ratio") and "availability" in one:
            series[one] = "0.999x240 0.99x160"
    told.add(name, series, {MISSED: {"4h50m": 0, "7h30m": 1, "10h": 0}})
    told.run(tmp_path)

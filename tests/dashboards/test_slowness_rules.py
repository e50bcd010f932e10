"""Who is slow or out of reach is named, all of them at once are said once, and a rolling restart is not said at all."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.dashboards.test_rules_fire import RISES, WELL, Series, both, firing, inputs, promtool_test

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

pytestmark = pytest.mark.e2e

Phases = tuple[tuple[int, int], ...]
"""For how many samples (15 s each), and how many of 100 observations in each are slow."""
HEALTHY: Phases = ((100, 0),)
SLOW: Phases = ((20, 0), (40, 50), (40, 0))
"""From 5 min to 15 min every second one."""
BEGUN, HELD, OVER = "6m", "10m", "19m"
ONCE = {BEGUN: False, HELD: True, OVER: False}
NEVER = {BEGUN: False, HELD: False, "14m": False, OVER: False}
RESTARTS: tuple[Phases, ...] = (
    ((20, 0), (1, 40), (79, 0)),
    ((24, 0), (1, 60), (75, 0)),
    ((28, 0), (1, 100), (71, 0)),
)
"""Each broker is restarted, a minute apart; the writes of up to 15 s wait for that."""


def running(per_sample: Sequence[int]) -> str:
    return " ".join(map(str, itertools.accumulate(per_sample)))


def took(name: str, label: str, phases: Mapping[str, Phases], *, slow: str = "2.5") -> Series:
    """The buckets of a histogram by broker, in which 100 observations are made between two samples."""
    series: Series = {}
    for broker, of in phases.items():
        slows = [share for samples, share in of for _ in range(samples)]
        labels = f'cluster="prod", {label}="{broker}", le='
        series |= both(f"{name}_bucket", f'{labels}"0.01"', running([100 - one for one in slows]))
        series |= both(f"{name}_bucket", f'{labels}"0.5"', running([100 - one for one in slows]))
        series |= both(f"{name}_bucket", f'{labels}"{slow}"', running([100] * len(slows)))
        series |= both(f"{name}_bucket", f'{labels}"+Inf"', running([100] * len(slows)))
    return series


def leaders(*phases: Phases) -> Series:
    numbered = {str(number): one for number, one in enumerate(phases, 1)}
    return took("canary_leader_produce_latency_seconds", "leader", numbered)


def commits(of: str, *phases: Phases) -> Series:
    numbered = {str(number): one for number, one in enumerate(phases, 1)}
    return took(f"canary_{of}_commit_latency_seconds", "coordinator", numbered)


def info(**racks: str) -> Series:
    series: Series = {}
    for broker, rack in racks.items():
        number = broker.removeprefix("b")
        series |= both("canary_broker_info", f'cluster="prod", broker="{number}", rack="{rack}", host="h"', "1x100")
    return series


def test_one_slow_leader_is_named_with_its_rack_and_the_cluster_is_not(tmp_path: Path) -> None:
    series = leaders(HEALTHY, SLOW, HEALTHY) | info(b1="a", b2="b", b3="c")
    firing("CanaryLeaderSlow", series, ONCE, tmp_path)
    firing("CanaryClusterSlow", series, NEVER, tmp_path)
    told = [
        {
            "expr": 'count by (broker, rack, leader, severity) (ALERTS{alertname="CanaryLeaderSlow"})',
            "eval_time": HELD,
            "exp_samples": [{"labels": '{broker="2", rack="b", leader="2", severity="warning"}', "value": 1}],
        }
    ]
    promtool_test(
        {"interval": "15s", "input_series": inputs(series), "promql_expr_test": told}, tmp_path, {"CanaryLeaderSlow"}
    )


FROZEN: Phases = ((20, 0), (40, 40), (40, 0))
"""From 5 min to 15 min: 2 s of every 5, of which 100 requests in 15 s have a part."""


def requests(*phases: Phases) -> Series:
    numbered = {str(number): one for number, one in enumerate(phases, 1)}
    return took("canary_broker_request_latency_seconds", "broker", numbered)


def test_a_slow_follower_is_named_and_not_the_leaders_that_wait_for_it(tmp_path: Path) -> None:
    """Seen of real brokers: one of three is frozen for 2 s of every 5, and leads nothing or its share."""
    answers = requests(HEALTHY, FROZEN, HEALTHY)
    for led in (leaders(SLOW, SLOW, SLOW), leaders(SLOW), leaders(SLOW, HEALTHY, HEALTHY)):
        firing("CanaryLeaderSlow", led | answers, ONCE, tmp_path, where=', broker="2"')
        firing("CanaryLeaderSlow", led | answers, NEVER, tmp_path, where=', broker!="2"')
        firing("CanaryClusterSlow", led | answers, NEVER, tmp_path)
    firing("CanaryLeaderSlow", leaders(SLOW, SLOW) | requests(HEALTHY, FROZEN), ONCE, tmp_path, where=', broker="2"')


def test_brokers_that_all_answer_slowly_or_were_hardly_asked_are_not_named(tmp_path: Path) -> None:
    few = "canary_broker_request_latency_seconds_bucket"
    seldom = both(few, 'cluster="prod", broker="2", le="0.5"', "0x100")
    seldom |= both(few, 'cluster="prod", broker="2", le="+Inf"', "0+1x100")
    for answers in (requests(FROZEN, FROZEN, FROZEN), requests(FROZEN), requests(HEALTHY) | seldom):
        firing("CanaryLeaderSlow", leaders(SLOW, SLOW, SLOW) | answers, NEVER, tmp_path)
        firing("CanaryClusterSlow", leaders(SLOW, SLOW, SLOW) | answers, ONCE, tmp_path)


def test_of_two_leaders_the_slow_one_is_named_and_two_of_five_are_both(tmp_path: Path) -> None:
    firing("CanaryLeaderSlow", leaders(HEALTHY, SLOW), ONCE, tmp_path)
    told = [{"expr": 'count(ALERTS{alertname="CanaryLeaderSlow", alertstate="firing"})', "eval_time": HELD}]
    series = leaders(SLOW, HEALTHY, SLOW, HEALTHY, HEALTHY)
    test = {
        "interval": "15s",
        "input_series": inputs(series),
        "promql_expr_test": [told[0] | {"exp_samples": [{"labels": "{}", "value": 2}]}],
    }
    promtool_test(test, tmp_path, {"CanaryLeaderSlow"})


def test_when_most_are_slow_that_is_one_alert_and_no_leader_s(tmp_path: Path) -> None:
    for series in (leaders(SLOW, SLOW, HEALTHY), leaders(SLOW, SLOW, SLOW), leaders(SLOW)):
        firing("CanaryClusterSlow", series, ONCE, tmp_path)
        firing("CanaryLeaderSlow", series, NEVER, tmp_path)


def test_a_rolling_restart_is_not_slowness_nor_is_a_pause_of_a_minute(tmp_path: Path) -> None:
    pause: Phases = ((20, 0), (4, 100), (76, 0))
    for series in (leaders(*RESTARTS), leaders(HEALTHY, pause, HEALTHY), leaders(pause, pause, pause)):
        firing("CanaryLeaderSlow", series, NEVER | {"7m": False, "8m": False, "9m": False}, tmp_path)
        firing("CanaryClusterSlow", series, NEVER | {"7m": False, "8m": False, "9m": False}, tmp_path)
    moved = commits("group", *RESTARTS) | commits("transaction", *RESTARTS)
    firing("CanaryCoordinatorSlow", moved, NEVER | {"7m": False, "8m": False}, tmp_path)


def test_one_write_in_twenty_and_a_little_slower_than_others_are_not_slowness(tmp_path: Path) -> None:
    firing("CanaryLeaderSlow", leaders(HEALTHY, ((100, 5),), HEALTHY), NEVER, tmp_path)
    name = "canary_leader_produce_latency_seconds"
    near = took(name, "leader", {"1": SLOW}, slow="1.0")
    for (
        broker
    ) in "23":  # these take up to half a second: all of them are near the bound, and none is far from the others
        labels = f'cluster="prod", leader="{broker}", le='
        near |= both(f"{name}_bucket", f'{labels}"0.25"', "0x100")
        near |= both(f"{name}_bucket", f'{labels}"0.5"', "0+100x100") | both(
            f"{name}_bucket", f'{labels}"+Inf"', "0+100x100"
        )
    firing("CanaryLeaderSlow", near, NEVER, tmp_path)


def test_a_broker_that_leads_nothing_any_more_is_not_counted_among_those_that_are_well(tmp_path: Path) -> None:
    series = leaders(SLOW, HEALTHY)
    for le in ("0.01", "+Inf"):
        series |= both(
            "canary_leader_produce_latency_seconds_bucket", f'cluster="prod", leader="3", le="{le}"', "7x100"
        )
    firing("CanaryLeaderSlow", series, ONCE, tmp_path)
    firing("CanaryClusterSlow", leaders(SLOW) | series, NEVER, tmp_path)


@pytest.mark.parametrize("reason", ["maintenance", "shadow"])
def test_in_a_planned_window_and_in_shadow_mode_nobody_is_slow(reason: str, tmp_path: Path) -> None:
    quiet = both("canary_quiet", f'cluster="prod", reason="{reason}"', "1x100")
    firing("CanaryLeaderSlow", leaders(HEALTHY, SLOW, HEALTHY) | quiet, NEVER, tmp_path)
    firing("CanaryClusterSlow", leaders(SLOW, SLOW) | quiet, NEVER, tmp_path)
    firing("CanaryCoordinatorSlow", commits("group", SLOW) | quiet, NEVER, tmp_path)
    firing("CanaryBrokerUnreachable", reached("0x100", "1x100") | quiet, NEVER, tmp_path)


def test_a_slow_coordinator_of_a_group_and_one_of_transactions_are_named(tmp_path: Path) -> None:
    firing("CanaryCoordinatorSlow", commits("group", SLOW) | leaders(HEALTHY), ONCE, tmp_path)
    series = commits("transaction", HEALTHY, SLOW, HEALTHY) | leaders(HEALTHY)
    firing("CanaryCoordinatorSlow", series, ONCE, tmp_path)
    firing("CanaryClusterSlow", series, NEVER, tmp_path)


def test_when_most_coordinators_or_most_leaders_are_slow_no_coordinator_is_named(tmp_path: Path) -> None:
    series = commits("transaction", SLOW, SLOW, HEALTHY) | commits("group", SLOW)
    firing("CanaryCoordinatorSlow", series, NEVER, tmp_path)
    firing("CanaryClusterSlow", series, ONCE, tmp_path)
    firing("CanaryCoordinatorSlow", commits("group", SLOW) | leaders(SLOW, SLOW), NEVER, tmp_path)


@pytest.mark.parametrize("of", ["group", "transaction"])
def test_a_coordinator_that_commits_nothing_pages_while_writes_go_on(of: str, tmp_path: Path) -> None:
    labels = 'cluster="prod", coordinator="2"'
    writes = both("canary_probes_acked_total", 'cluster="prod", topic="t", partition="0", mode="m"', "0+100x100")
    failed = both(f"canary_{of}_commit_failures_total", labels, "0x20 0+4x40 160x40")
    stops = both(f"canary_{of}_commit_latency_seconds_bucket", f'{labels}, le="+Inf"', "0+10x20 200x40 200+10x40")
    firing("CanaryCoordinatorUnavailable", writes | failed | stops, ONCE, tmp_path)
    goes_on = both(f"canary_{of}_commit_latency_seconds_bucket", f'{labels}, le="+Inf"', "0+1x100")
    firing("CanaryCoordinatorUnavailable", writes | failed | goes_on, NEVER, tmp_path)
    nothing = both("canary_probes_acked_total", 'cluster="prod", topic="t", partition="0", mode="m"', "7x100")
    firing("CanaryCoordinatorUnavailable", nothing | failed | stops, NEVER, tmp_path)


def reached(*values: str) -> Series:
    series: Series = {}
    for broker, one in enumerate(values, 1):
        series |= both("canary_broker_reachable", f'cluster="prod", broker="{broker}"', one)
    return series


def test_a_live_broker_that_is_out_of_reach_is_named_while_others_are_reached(tmp_path: Path) -> None:
    away = "1x20 0x40 1x40"
    times = {"5m": False, "6m": False, "8m": True, "16m": False}
    firing("CanaryBrokerUnreachable", reached(away, "1x100", "1x100"), times, tmp_path)
    firing("CanaryBrokerUnreachable", reached(away, away, away), {"8m": False, "14m": False}, tmp_path)


def test_a_broker_that_is_restarted_is_not_out_of_reach(tmp_path: Path) -> None:
    """While it is down it is not live, and has no series; then it takes a moment to be found again."""
    series = reached("1x20 0 0 _x6 0 1x60", "1x100", "1x100")
    firing("CanaryBrokerUnreachable", series, {"6m": False, "7m": False, "8m": False, "9m": False}, tmp_path)


def waited(partitions: Mapping[str, str]) -> Series:
    series: Series = {}
    for number, (leader, values) in enumerate(partitions.items()):
        labels = f'cluster="prod", topic="t", partition="{number}", leader="{leader}"'
        series |= both("canary_unacknowledged_seconds", labels, values)
    return series


def test_a_rack_none_of_whose_leaders_takes_writes_pages_as_one(tmp_path: Path) -> None:
    series = waited({"1": RISES, "2": RISES, "3": WELL}) | info(b1="a", b2="a", b3="b")
    firing("CanaryRackUnwritable", series, {"5m45s": False, "7m": True, "14m": True, "21m": False}, tmp_path)


def test_a_rack_of_one_leader_or_with_one_that_takes_writes_is_no_rack_s_trouble(tmp_path: Path) -> None:
    times = {"7m": False, "14m": False}
    firing("CanaryRackUnwritable", waited({"1": RISES, "3": WELL}) | info(b1="a", b2="a", b3="b"), times, tmp_path)
    one_writes = waited({"1": RISES, "2": WELL, "3": WELL}) | info(b1="a", b2="a", b3="b")
    firing("CanaryRackUnwritable", one_writes, times, tmp_path)
    without = waited({"1": RISES, "2": RISES}) | info(b1="", b2="")
    firing("CanaryRackUnwritable", without, times, tmp_path)


def test_replicas_of_the_api_that_differ_about_a_rack_break_no_rule(tmp_path: Path) -> None:
    series = waited({"1": RISES, "2": RISES}) | info(b1="a", b2="a")
    series['canary_broker_info{cluster="prod", broker="1", rack="old", host="h", instance="b:8080", pod="b"}'] = "1x100"
    told = [
        {
            "expr": 'count(ALERTS{alertname="CanaryLeaderUnwritable", alertstate="firing"})',
            "eval_time": "8m",
            "exp_samples": [{"labels": "{}", "value": 2}],
        }
    ]
    test = {"interval": "15s", "input_series": inputs(series), "promql_expr_test": told}
    promtool_test(test, tmp_path, {"CanaryLeaderUnwritable", "CanaryRackUnwritable"})

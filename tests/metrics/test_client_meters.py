"""What clients measure of brokers goes on after a restart, and goes when a broker goes."""

from __future__ import annotations

from canary.metrics.catalogue import METRICS
from canary.metrics.client_meters import MEASURED, UNKNOWN, ClientMeters
from canary.metrics.metric import Measurement

LATENCY, FAILURES = "canary_group_commit_latency_seconds", "canary_group_commit_failures_total"
REACHABLE = "canary_broker_reachable"


def filled() -> ClientMeters:
    meters = ClientMeters()
    meters.observe(LATENCY, "1", 0.001, 0.3)
    meters.count(FAILURES, "2")
    meters.count(FAILURES, "2", 2)
    meters.count(FAILURES, UNKNOWN)
    meters.set(REACHABLE, "1", 1)
    meters.set(REACHABLE, "2", 0)
    return meters


def told(meters: ClientMeters, members: str = "12", live: str = "12") -> dict[tuple[str, str], Measurement]:
    return {(one.name, one.labels[0]): one for one in meters.measured(set(members), set(live))}


def test_every_series_is_one_of_the_catalogue_as_it_is_declared_there() -> None:
    found = told(filled())
    assert all(METRICS[one.name].holds(one) for one in found.values())
    assert {name for name, _ in found} <= MEASURED
    assert found[LATENCY, "1"].value == 0.301
    assert sum(found[LATENCY, "1"].counts) == 2
    assert found[FAILURES, "2"].value == 3
    assert (found[REACHABLE, "1"].value, found[REACHABLE, "2"].value) == (1, 0)


def test_counters_go_on_after_a_restart_and_gauges_are_known_anew() -> None:
    again = ClientMeters()
    again.resume([*told(filled()).values(), Measurement("canary_suspects", ("x",), 3), Measurement(LATENCY, ("9",), 1)])
    again.observe(LATENCY, "1", 0.001)
    again.count(FAILURES, "2")
    found = told(again)
    assert sum(found[LATENCY, "1"].counts) == 3
    assert found[FAILURES, "2"].value == 4
    assert {name for name, _ in found} == {LATENCY, FAILURES}


def test_whether_a_broker_is_reached_is_not_said_of_one_that_the_cluster_does_not_name_now() -> None:
    found = told(filled(), live="1")
    assert (REACHABLE, "2") not in found
    assert found[FAILURES, "2"].value == 3


def test_a_broker_that_is_no_member_is_forgotten_and_the_unknown_coordinator_is_not() -> None:
    meters = filled()
    assert {broker for _, broker in told(meters, "1", "1")} == {"1", UNKNOWN}
    assert {broker for _, broker in told(meters)} == {"1", UNKNOWN}


def test_before_the_cluster_is_known_nothing_is_forgotten() -> None:
    meters = filled()
    assert (FAILURES, "2") in told(meters, "", "")
    assert told(meters) == told(filled())


def test_a_gauge_that_is_not_known_is_no_series() -> None:
    meters = filled()
    meters.set(REACHABLE, "1", None)
    assert (REACHABLE, "1") not in told(meters)

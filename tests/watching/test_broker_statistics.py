"""What a client's statistics say of each broker: how long requests take, and whether it is reached at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from canary.metrics.client_meters import ClientMeters
from canary.watching import broker_statistics
from canary.watching.broker_statistics import BrokerStatistics, observed, round_trips
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_TRIPS = {"cnt": 0, "outofrange": 0} | dict.fromkeys(("p50", "p75", "p90", "p95", "p99", "max"), 0)
UP: dict[str, Any] = {
    "nodeid": 1,
    "source": "learned",
    "state": "UP",
    "connects": 1,
    "disconnects": 0,
    "txerrs": 0,
    "rxerrs": 0,
    "req_timeouts": 0,
    "waitresp_cnt": 0,
    "rxidle": 0,
    "rtt": NO_TRIPS,
}
AWAY = UP | {"state": "TRY_CONNECT", "connects": 2, "disconnects": 1}
NEVER = UP | {"state": "INIT", "connects": 0}


class Told:
    def __init__(self) -> None:
        self.meters = ClientMeters()
        self.statistics = BrokerStatistics(self.meters)

    def take(self, *brokers: Mapping[str, Any]) -> None:
        self.statistics(orjson.dumps({"brokers": dict(enumerate(brokers))}, option=orjson.OPT_NON_STR_KEYS).decode())

    def value(self, name: str, broker: str = "1") -> float | None:
        found = self.meters.measured({"1", "2"}, {"1", "2"})
        values = [one.value for one in found if (one.name, *one.labels) == (f"canary_broker_{name}", broker)]
        return values[0] if values else None


def test_a_broker_is_reached_or_is_not_and_one_that_is_not_asked_is_neither() -> None:
    told = Told()
    told.take(NEVER, AWAY | {"nodeid": 2})
    assert (told.value("reachable"), told.value("reachable", "2")) == (None, 0)
    told.take(UP, UP | {"nodeid": 2, "connects": 3, "disconnects": 2})
    assert (told.value("reachable"), told.value("reachable", "2")) == (1, 1)
    told.take(AWAY, UP | {"nodeid": 2, "connects": 3, "disconnects": 2})
    assert (told.value("reachable"), told.value("reachable", "2")) == (0, 1)


def test_between_two_attempts_a_broker_is_still_out_of_reach_and_long_after_the_last_it_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Told()
    told.take(AWAY)
    told.take(AWAY | {"state": "INIT"})
    assert told.value("reachable") == 0
    monkeypatch.setattr(broker_statistics, "_TRYING_S", 0.0)
    told.take(AWAY | {"state": "INIT"})
    assert told.value("reachable") is None


def test_a_broker_that_is_connected_and_answers_nothing_is_out_of_reach() -> None:
    told = Told()
    told.take(UP | {"waitresp_cnt": 3, "rxidle": 4_000_000})
    assert told.value("reachable") == 1
    told.take(UP | {"waitresp_cnt": 3, "rxidle": 6_000_000})
    assert told.value("reachable") == 0
    told.take(UP | {"waitresp_cnt": 0, "rxidle": 60_000_000})
    assert told.value("reachable") == 1


def test_counters_rise_by_what_is_new_also_when_the_client_counts_anew() -> None:
    told = Told()
    told.take(UP | {"txerrs": 1, "rxerrs": 1, "req_timeouts": 1})
    told.take(UP | {"txerrs": 1, "rxerrs": 2, "req_timeouts": 3, "connects": 4})
    assert (told.value("request_errors_total"), told.value("connects_total")) == (6, 4)
    told.take(UP | {"connects": 2})
    assert told.value("connects_total") == 6


def test_bootstrap_and_logical_connections_are_no_brokers() -> None:
    told = Told()
    told.take(AWAY | {"nodeid": -1}, AWAY | {"source": "logical"})
    assert told.meters.measured({"1", "-1"}, {"1", "-1"}) == []


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_there_are_as_many_round_trips_as_answers_and_none_is_told_shorter_than_it_was(n: int) -> None:
    window = {"p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99, "max": 100, "cnt": n, "outofrange": 0}
    found = [one * 1e6 for one in round_trips(window)]
    assert len(found) == n
    assert all(told >= 100 * rank / n - 1e-6 for rank, told in enumerate(found, 1))
    assert found[-1] == pytest.approx(100)


def test_what_is_beyond_the_clients_range_took_as_long_as_the_longest() -> None:
    window = NO_TRIPS | {"p50": 4, "p75": 4, "p90": 4, "p95": 4, "p99": 4, "max": 700_000, "cnt": 3, "outofrange": 2}
    assert list(round_trips(window)) == [0.7, 0.7, 0.7]
    assert next(round_trips(window | {"cnt": 4})) == 4e-6


def test_librdkafka_tells_it_of_the_brokers_that_the_watcher_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_statistics, "INTERVAL_S", 0.1)
    meters = ClientMeters()
    admin = AdminClient({"bootstrap.servers": "mock", "test.mock.num.brokers": 2, **observed(meters)})
    # Each partition's leader is drawn: all of four are on one broker once in eight times, of 16 never.
    topics = [f"t{number}" for number in range(16)]
    places = {TopicPartition(topic, 0): OffsetSpec.latest() for topic in topics}
    for topic in topics:
        admin.list_topics(topic, timeout=10)

    def reached() -> bool:
        for future in admin.list_offsets(places, request_timeout=10).values():
            future.exception()
        admin.poll(0.05)
        found = meters.measured({"1", "2"}, {"1", "2"})
        trips = {one.labels[0] for one in found if any(one.counts)}
        up = {one.labels[0] for one in found if one.name == "canary_broker_reachable" and one.value == 1}
        return trips == up == {"1", "2"}

    until(reached, 60, "both brokers are reached")

"""Offsets of partitions that have no leader when they are asked for."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from spark_reconcile.dump import kafka_bounds
from spark_reconcile.dump.kafka_bounds import Cluster, Topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

WITHOUT_LEADER = -1001
TOPIC = Topic("orders", None, 2, None, None)


class Admin:
    """Answers the first questions about partition 1 as a broker does that knows of no leader."""

    def __init__(self, leaderless: int) -> None:
        self.asked = self.renewed = 0
        self._leaderless = leaderless

    def list_offsets(self, places: Mapping[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        self.asked += 1
        found: dict[Any, Future[Any]] = {}
        for place in places:
            future = found[place] = Future()
            silent = place.partition == 1 and self.asked <= self._leaderless
            future.set_result(SimpleNamespace(offset=WITHOUT_LEADER if silent else 40 + place.partition))
        return found

    def list_topics(self, timeout: float) -> None:  # noqa: ARG002  # as the real one
        self.renewed += 1


def starts(monkeypatch: pytest.MonkeyPatch, admin: Admin) -> dict[tuple[str, int], int]:
    monkeypatch.setattr(kafka_bounds, "_PAUSE_S", 0.0)
    cluster = Cluster("c", {"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setattr(cluster, "_admin", admin)
    return cluster.starts([TOPIC])


def test_a_partition_is_asked_again_while_its_leader_is_being_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(leaderless=2)
    assert starts(monkeypatch, admin) == {("orders", 0): 40, ("orders", 1): 41}
    assert (admin.asked, admin.renewed) == (3, 2), "each time of the leaders of then"


def test_one_that_stays_without_a_leader_is_left_out_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(leaderless=1000)
    assert starts(monkeypatch, admin) == {("orders", 0): 40}
    assert admin.asked == kafka_bounds._TRIES

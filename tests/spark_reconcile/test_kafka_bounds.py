"""Offsets of partitions that have no leader when they are asked for."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spark_reconcile.dump import dumping, kafka_bounds
from spark_reconcile.dump.dumping import Wanted
from spark_reconcile.dump.kafka_bounds import Cluster, Topic
from spark_reconcile.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    monkeypatch.setattr(
        kafka_bounds, "verified", lambda _, listed: {place: start - 1 for place, start in listed.items()}
    )
    cluster = Cluster("c", {"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setattr(cluster, "_admin", admin)
    return cluster.starts([TOPIC])


def test_a_partition_is_asked_again_while_its_leader_is_being_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(leaderless=2)
    assert starts(monkeypatch, admin) == {("orders", 0): 39, ("orders", 1): 40}, "as verified"
    assert (admin.asked, admin.renewed) == (3, 2), "each time of the leaders of then"


def test_one_that_stays_without_a_leader_is_left_out_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(leaderless=1000)
    assert starts(monkeypatch, admin) == {("orders", 0): 39}
    assert admin.asked == kafka_bounds._TRIES


class Met:
    """A client of the cluster that its address leads to when it is made."""

    leads_to = "here"

    def __init__(self, *_: object, **__: object) -> None:
        self.met = Met.leads_to

    def list_topics(self, **_: object) -> Any:
        brokers = {1: SimpleNamespace(id=1, host="h", port=1)}
        return SimpleNamespace(cluster_id=self.met, controller_id=1, brokers=brokers)

    def describe_topics(self, topics: Any, **_: object) -> dict[str, Future[Any]]:
        told: Future[Any] = Future()
        told.set_result(SimpleNamespace(partitions=[0, 1], topic_id=None))
        return dict.fromkeys(topics.topic_names, told)


@pytest.fixture(name="met")
def _met(monkeypatch: pytest.MonkeyPatch) -> type[Met]:
    monkeypatch.setattr(kafka_bounds, "AdminClient", Met)
    monkeypatch.setattr(kafka_bounds.Cluster, "_retention", lambda *_: (None, None, None, False))
    monkeypatch.setattr(Met, "leads_to", "here")
    return Met


def test_what_was_read_over_new_connections_to_another_cluster_is_of_no_use(
    met: type[Met], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client that has asked for the bounds stays in the known cluster; readers come later."""
    cluster = Cluster("c", {})
    cluster.unchanged([TOPIC], "dumped")
    monkeypatch.setattr(met, "leads_to", "there")
    with pytest.raises(UnreachableError, match="new connections lead to cluster there, not to here"):
        cluster.unchanged([TOPIC], "dumped")


@pytest.mark.usefixtures("met")
def test_a_cluster_that_is_not_the_known_one_is_not_dumped() -> None:
    with pytest.raises(UnreachableError, match="leads to cluster here, not to the known one, another"):
        dumping._dump_cluster(None, Wanted("c", {}, ["orders"], "installation", cluster_id="another"), "")

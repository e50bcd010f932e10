"""A listed log start counts where a fetch below it is refused; a fetch that is served says where the log begins."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from canary.wire import client, replicas
from canary.wire import fetch as fetching
from canary.wire.errors import WireError
from spark_reconcile.dump.log_start import verified

if TYPE_CHECKING:
    from collections.abc import Iterable

REFUSED = WireError("no", code="OFFSET_OUT_OF_RANGE")
LISTED = {("t", 0): 100, ("t", 1): 100, ("u", 0): 0}


class Brokers:
    """Logs by the offset that they begin at, or an error that a fetch has; topics whose replicas are described."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begins: dict[int, int | WireError] = {0: 100, 1: 100}
        self.asked: list[tuple[int, int]] = []
        self.described: dict[str, Any] = {
            "t": tuple(SimpleNamespace(topic="t", partition=p, leader=1 + p, leader_epoch=7) for p in (0, 1))
        }
        monkeypatch.setattr(client, "opened", lambda *_: nullcontext())
        monkeypatch.setattr(replicas, "described", self.replicas)
        monkeypatch.setattr(fetching, "fetch", self.fetch)

    def replicas(self, _: Any, topics: Iterable[str]) -> dict[str, Any]:
        assert set(topics) == {"t"}, "a log that begins at 0 is not asked"
        return self.described

    def fetch(
        self, _: Any, __: str, partition: int, broker: int, offset: int, *, leader_epoch: int, **___: Any
    ) -> None:
        assert (broker, leader_epoch) == (1 + partition, 7)
        self.asked.append((partition, offset))
        begins = self.begins[partition]
        if isinstance(begins, WireError):
            raise begins
        if offset < begins:
            raise REFUSED


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


def test_a_start_below_which_nothing_is_served_is_where_the_log_begins(brokers: Brokers) -> None:
    assert verified({}, LISTED) == LISTED
    assert brokers.asked == [(0, 99), (1, 99)]


@pytest.mark.parametrize("begins", [0, 1, 70, 99])
def test_a_start_that_is_listed_too_high_is_put_where_the_log_is_served_from(brokers: Brokers, begins: int) -> None:
    brokers.begins[1] = begins
    assert verified({}, LISTED) == LISTED | {("t", 1): begins}


def test_without_an_answer_a_start_is_as_it_is_listed_and_hides_nothing_of_others(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.begins = {0: WireError("it leads no more", code="NOT_LEADER_OR_FOLLOWER"), 1: 70}
    assert verified({}, LISTED) == LISTED | {("t", 1): 70}
    brokers.described["t"] = WireError("not now")
    assert verified({}, LISTED) == LISTED

    def closed(*_: Any) -> Any:
        raise WireError("nobody is there")

    monkeypatch.setattr(client, "opened", closed)
    assert verified({}, LISTED) == LISTED

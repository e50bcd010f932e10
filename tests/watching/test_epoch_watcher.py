"""What a look at leader epochs counts as unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from canary.threads.ports import SteadyClock
from canary.watching.elections.epoch_watcher import EpochWatcher
from canary.wire import epochs
from canary.wire.errors import WireError
from tests.support.recording import Recording
from tests.watching.replicas.world import STATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from canary.wire.replicas import PartitionReplicas


class Cluster:
    """What leaders answer: each begins its epoch at 0, and has 9 records."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *partitions: PartitionReplicas) -> None:
        self.partitions = partitions
        self.error: WireError | None = None
        monkeypatch.setattr("canary.wire.replicas.names", lambda _: ["orders"] if partitions else [])
        monkeypatch.setattr("canary.wire.replicas.described", self._described)
        monkeypatch.setattr(epochs, "high_watermarks", self._ends)
        monkeypatch.setattr(epochs, "boundaries", self._boundaries)

    def _described(self, _admin: Any, names: list[str]) -> dict[str, Any]:
        return dict.fromkeys(names, self.partitions)

    def _ends(self, _admin: Any, led: Mapping[Any, epochs.Led]) -> dict[Any, Any]:
        return dict.fromkeys(led, 9 if self.error is None else self.error)

    def _boundaries(self, _admin: Any, led: Mapping[Any, epochs.Led], **_: Any) -> dict[Any, Any]:
        return {
            place: self.error or epochs.Boundaries((epochs.Boundary(one.epoch, 0),), 9, whole=True)
            for place, one in led.items()
        }


def counts(watcher: EpochWatcher) -> tuple[int, int, str | None]:
    """How many are watched, of how many nothing is known, and why."""
    watcher.look(object())
    assert watcher.latest is not None
    return watcher.latest.partitions, watcher.latest.unknown, watcher.latest.reason


def watcher_of(topics: list[str]) -> EpochWatcher:
    return EpochWatcher({}, topics, [], Recording(), SteadyClock(), 1.0)


def test_a_partition_that_nobody_leads_is_watched_and_not_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cut while nobody leads, and offline-partition says it."""
    cluster = Cluster(monkeypatch, STATE, replace(STATE, partition=1, leader=None))
    watcher = watcher_of(["orders"])
    assert counts(watcher) == (2, 0, None)
    cluster.partitions = (replace(STATE, leader=None),)
    assert counts(watcher) == (1, 0, None)
    cluster.partitions = (replace(STATE, leader_epoch=-1),)
    assert counts(watcher) == (1, 1, "orders:0: its leader epoch is not told")


def test_without_an_answer_or_a_topic_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, STATE)
    cluster.error = WireError("NOT_LEADER_OR_FOLLOWER: orders:0")
    assert counts(watcher_of(["orders"])) == (1, 1, "NOT_LEADER_OR_FOLLOWER: orders:0")
    Cluster(monkeypatch)
    assert counts(watcher_of(["else-*"]))[:2] == (0, 1)

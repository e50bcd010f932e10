"""When the next round begins at once."""

from __future__ import annotations

import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from canary.threads.ports import SteadyClock
from canary.watching import sampler
from canary.watching.offsets import Offsets
from canary.watching.sampler import Watcher

if TYPE_CHECKING:
    import pytest


def test_a_leader_epoch_that_rises_is_looked_at_again_at_once_and_one_that_stays_or_falls_is_not() -> None:
    offsets = Offsets()

    def told(epoch: int | None, bound: str = "end") -> bool:
        answer = SimpleNamespace(offset=10, leader_epoch=epoch)
        return offsets.new_leaders({(bound, "orders", 0): (answer, None)})

    assert [told(epoch) for epoch in (4, 4, 5, 5, None, 3, 3)] == [False, False, True, False, False, False, False]
    assert not told(9, "start")
    assert told(9)


def test_a_round_that_waits_for_a_dead_broker_ends_when_another_is_wanted_but_never_two_in_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inbox = SimpleNamespace(put=lambda _: None)
    watcher = Watcher({}, ["t"], inbox, SteadyClock(), timeout_s=0.2)
    monkeypatch.setattr(sampler, "_HURRY_S", 0.0)
    waits = list[float]()

    def done(pending: set[Future[Any]], seconds: float) -> set[Future[Any]]:
        waits.append(seconds)
        time.sleep(0.05)
        return pending

    monkeypatch.setattr("canary.watching.sampler.system.done", done)
    rounds = []
    for _ in range(3):
        watcher.ask_now()
        assert watcher._answered([Future()], time.monotonic())
        rounds.append(len(waits))
        waits.clear()
    assert rounds[0] == rounds[2] == 1
    assert rounds[1] > 5, "slow answers come in the end, however often they are asked for"
    watcher.woken.clear()
    watcher._cut_short = False
    assert watcher._answered([Future()], time.monotonic())
    assert len(waits) > 5

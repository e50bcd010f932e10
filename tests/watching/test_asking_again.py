"""When the next round begins at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from canary.client.ports import SteadyClock
from canary.watching.sampler import Watcher

if TYPE_CHECKING:
    from canary.client.recording import Recording


def test_a_leader_epoch_that_rises_is_looked_at_again_at_once_and_one_that_stays_or_falls_is_not(
    inbox: Recording,
) -> None:
    watcher = Watcher({}, [], inbox, SteadyClock())

    def told(epoch: int | None, bound: str = "end") -> bool:
        watcher.woken.clear()
        answer = SimpleNamespace(offset=10, leader_epoch=epoch)
        watcher._look_again_under_new_leaders({(bound, "orders", 0): (answer, None)})
        return watcher.woken.is_set()

    assert [told(epoch) for epoch in (4, 4, 5, 5, None, 3, 3)] == [False, False, True, False, False, False, False]
    assert not told(9, "start")
    assert told(9)

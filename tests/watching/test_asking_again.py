"""When the next round begins at once."""

from __future__ import annotations

from types import SimpleNamespace

from canary.watching.offsets import Offsets


def test_a_leader_epoch_that_rises_is_looked_at_again_at_once_and_one_that_stays_or_falls_is_not() -> None:
    offsets = Offsets()

    def told(epoch: int | None, bound: str = "end") -> bool:
        answer = SimpleNamespace(offset=10, leader_epoch=epoch)
        return offsets.new_leaders({(bound, "orders", 0): (answer, None)})

    assert [told(epoch) for epoch in (4, 4, 5, 5, None, 3, 3)] == [False, False, True, False, False, False, False]
    assert not told(9, "start")
    assert told(9)

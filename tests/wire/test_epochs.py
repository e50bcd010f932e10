"""The epochs of a log, found by asking where epochs end, of a leader that answers as Kafka's epoch cache does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.wire import epochs
from canary.wire.epochs import Boundaries, Boundary, EpochEnd, Led, boundaries, ends
from canary.wire.errors import WireError

PLACE = ("orders", 0)


class Leader:
    """LeaderEpochFileCache.endOffsetFor, over the wire."""

    def __init__(self, starts: dict[int, int], end: int) -> None:
        self.starts = starts
        self.end = end
        self.requests = 0

    def __call__(self, _: object, request: Any, broker: int) -> Any:
        assert broker == 1
        self.requests += 1
        answers = [
            SimpleNamespace(
                topic=topic.topic, partitions=[self.answer(one.partition, one.leader_epoch) for one in topic.partitions]
            )
            for topic in request.topics
        ]
        return SimpleNamespace(topics=answers)

    def answer(self, partition: int, asked: int) -> Any:
        later = min((epoch for epoch in self.starts if epoch > asked), default=None)
        here = max((epoch for epoch in self.starts if epoch <= asked), default=None)
        if later is None:
            epoch, end = (here, self.end) if here == asked else (-1, -1)
        else:
            epoch, end = (asked if here is None else here), self.starts[later]
        return SimpleNamespace(partition=partition, error_code=0, leader_epoch=epoch, end_offset=end)


@st.composite
def logs(draw: st.DrawFn) -> tuple[dict[int, int], int]:
    numbers = sorted(draw(st.sets(st.integers(0, 12), min_size=1, max_size=6)))
    first = 0 if numbers[0] == 0 else draw(st.sampled_from([0, 7]))  # what was before is removed, or was empty
    starts = [first]
    for _ in numbers[1:]:
        starts.append(starts[-1] + draw(st.integers(1, 9)))
    return dict(zip(numbers, starts, strict=True)), starts[-1] + draw(st.integers(0, 9))


@given(log=logs())
def test_each_epoch_of_a_log_is_found(log: tuple[dict[int, int], int]) -> None:
    starts, end = log
    leader = Leader(starts, end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(epochs, "asked", leader)
        found = boundaries(None, {PLACE: Led(1, max(starts)), ("orders", 1): Led(1, max(starts))})
    one = found[PLACE]
    assert isinstance(one, Boundaries)
    assert one == found["orders", 1]
    known = {each.epoch: each.start_offset for each in one.epochs}
    removed = {0: 0} if min(starts) > 0 and starts[min(starts)] > 0 else {}
    assert known in (starts, removed | starts)
    assert (one.end_offset, one.whole) == (end, True)
    assert leader.requests <= len(starts) + 2


def test_only_what_is_new_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader({0: 0, 3: 10, 5: 20, 6: 25}, 30)
    monkeypatch.setattr(epochs, "asked", leader)
    assert boundaries(None, {PLACE: Led(1, 6)}, known={PLACE: 5}) == {
        PLACE: Boundaries((Boundary(5, 20), Boundary(6, 25)), 30, whole=False)
    }
    assert leader.requests == 3
    (found,) = boundaries(None, {PLACE: Led(1, 6)}, most=1).values()
    assert found == Boundaries((Boundary(6, 25),), 30, whole=False)


def test_what_is_not_answered_has_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "asked", Leader({2: 10}, 30))
    found = ends(None, {PLACE: (Led(1, 2), 2), ("orders", 1): (Led(1, 7), 7)})
    assert found[PLACE] == EpochEnd(2, 30)
    unknown = found["orders", 1]
    assert isinstance(unknown, WireError)
    assert unknown.code == "UNKNOWN_LEADER_EPOCH"
    assert isinstance(boundaries(None, {PLACE: Led(1)})[PLACE], WireError)

    def silent(*_: object) -> None:
        raise WireError("it does not answer")

    monkeypatch.setattr(epochs, "asked", silent)
    assert [str(one) for one in boundaries(None, {PLACE: Led(1, 2)}).values()] == ["it does not answer"]

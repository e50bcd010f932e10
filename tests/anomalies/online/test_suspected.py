"""A loss that nothing confirms is suspected, and said so: it is no lost write, and it is not passed over."""

from __future__ import annotations

import pytest

from canary import facts as f
from tests.support.bench import RC, TOPIC, Bench


class Silent(Bench):
    """A bench whose leader answers no fetch, or that is not told the topic's id."""

    fetches = False
    told = True
    over: list[str]

    def fold(self, *facts: f.Fact) -> None:
        self.now_ns += 1_000_000
        self.tracker.fold([one for one in facts if self.told or not isinstance(one, f.TopicSeen)])
        found = self.tracker.drain()
        self.requests.extend(found.rereads)
        self.said.extend(found.violations)
        self.over = [*getattr(self, "over", []), *(one.kind for one in found.ended)]

    def answer(self) -> None:
        if self.fetches:
            super().answer()
            return
        requests, self.requests = self.requests, []
        for r in requests:
            place = (r.request_id, RC, TOPIC, 0, r.start, r.end)
            self.fold(f.RereadEnded(self.now_ns, *place, r.start, False, "silence for 5 s"))

    def kinds(self) -> list[str]:
        return [one.kind for one in self.said]

    def rounds(self, n: int) -> None:
        for _ in range(n):
            self.round()


def skipped(**more: bool) -> Silent:
    """Return a bench with ten promises, of which a consumer was given all but one."""
    bench = Silent()
    for name, value in more.items():
        setattr(bench, name, value)
    bench.write(10)
    del bench.log[4]
    bench.poll()
    return bench


def test_a_loss_that_no_fetch_confirms_is_suspected_after_a_minute_and_a_lost_write_when_one_does() -> None:
    bench = skipped()
    bench.rounds(55)
    assert bench.kinds() == []
    bench.rounds(10)
    assert bench.kinds() == ["suspected-loss"]
    (said,) = bench.said
    assert (said.severity, said.topic, said.partition, said.offset) == ("warning", TOPIC, 0, 4)
    assert "1 acknowledged write is not found" in said.summary
    assert "answers no fetch" in said.summary
    bench.fetches = True
    bench.rounds(8)
    assert bench.kinds() == ["suspected-loss", "lost-write"]
    assert bench.over == ["suspected-loss"]


def test_a_suspicion_is_over_when_the_record_is_there() -> None:
    bench = skipped()
    bench.rounds(65)
    bench.log[4] = (bench.log[3][0], 1, 4)  # type: ignore[assignment]
    bench.fetches = True
    bench.rounds(8)
    assert "lost-write" not in bench.kinds()
    assert bench.over == ["suspected-loss"]


def test_a_loss_of_a_topic_whose_id_nobody_tells_is_suspected() -> None:
    bench = skipped(fetches=True)
    bench.told = False
    bench.rounds(65)
    assert bench.kinds() == ["suspected-loss"]
    assert "the topic's id is not answered" in bench.said[0].summary
    bench.told = True
    bench.rounds(8)
    assert bench.kinds() == ["suspected-loss", "lost-write"]


@pytest.mark.parametrize(("leader", "said"), [(1, ["suspected-loss"]), (-1, [])])
def test_without_a_leader_the_partition_is_offline_and_nothing_is_suspected_beside_that(
    leader: int, said: list[str]
) -> None:
    bench = skipped()
    bench.leader = leader
    bench.rounds(80)
    assert [kind for kind in bench.kinds() if kind == "suspected-loss"] == said

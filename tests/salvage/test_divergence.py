"""What a log has and another lacks, by epochs alone, against two logs whose records can be told apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from canary.salvage.divergence import Holdings, Span, spans

Log = list[tuple[int, int]]
"""Of each offset (epoch, a number that no other record has)."""


class Replicas:
    """Three replicas: a leader appends, followers copy from it, elections cut, clean or not."""

    def __init__(self) -> None:
        self.logs: list[Log] = [[], [], []]
        self.leader, self.epoch, self.number = 0, 0, 0

    def append(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.logs[self.leader].append((self.epoch, self.number))

    def copy(self, follower: int, upto: int) -> None:
        """Let a follower cut what the leader does not have, and take up to so many records."""
        led, own = self.logs[self.leader], self.logs[follower]
        same = next((at for at, (ours, theirs) in enumerate(zip(led, own, strict=False)) if ours != theirs), None)
        common = min(len(led), len(own)) if same is None else same
        self.logs[follower] = own[:common] + led[common : common + upto]

    def elect(self, broker: int) -> None:
        self.leader, self.epoch = broker, self.epoch + 1

    def lose(self, broker: int, count: int) -> None:
        """Cut a replica's end off, as a crash without fsync does; it is elected anew, if it led."""
        own = self.logs[broker]
        self.logs[broker] = own[: max(0, len(own) - count)]
        if broker == self.leader:
            self.elect(broker)


def starts(log: Log, begin: int = 0) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for offset, (epoch, _) in enumerate(log):
        if offset >= begin and (not found or found[-1][0] != epoch):
            found.append((epoch, offset))
    return found


step = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5), st.just(0)),
    st.tuples(st.just("copy"), st.integers(0, 2), st.integers(0, 10)),
    st.tuples(st.just("elect"), st.integers(0, 2), st.just(0)),
    st.tuples(st.just("lose"), st.integers(0, 2), st.integers(1, 6)),
)


@given(steps=st.lists(step, max_size=40), kept=st.integers(0, 2), begin=st.integers(0, 20))
def test_held_is_what_is_there_gone_is_what_is_not_expired_is_what_nobody_can_tell(
    steps: list[tuple[str, int, int]], kept: int, begin: int
) -> None:
    replicas = Replicas()
    for name, one, two in steps:
        if name == "copy":
            if one != replicas.leader:
                replicas.copy(one, two)
        elif name == "append":
            replicas.append(one)
        elif name == "elect":
            replicas.elect(one)
        else:
            replicas.lose(one, two)
    cluster, copy = replicas.logs[replicas.leader], replicas.logs[kept]
    begin = min(begin, len(cluster))
    holdings = Holdings(begin, len(cluster), spans(starts(cluster, begin), len(cluster)))
    by_piece: list[str] = []
    for span in spans(starts(copy), len(copy)):
        pieces = holdings.divided(span)
        assert [piece.start for _, piece in pieces] == [span.start, *(piece.end for _, piece in pieces[:-1])]
        by_piece += [fate for fate, piece in pieces for _ in range(piece.start, piece.end)]
    assert len(by_piece) == len(copy)
    for offset, (epoch, number) in enumerate(copy):
        fate = holdings.fate(offset, epoch)
        assert by_piece[offset] == fate
        there = offset < len(cluster) and cluster[offset] == (epoch, number)
        if offset >= begin:
            assert fate == ("held" if there else "gone")
        else:
            assert fate == "expired" or not there


def test_epochs_that_the_cluster_never_had_are_gone_below_its_start_too() -> None:
    holdings = Holdings(100, 200, spans([(5, 100), (7, 150)], 200))
    assert [holdings.fate(offset, epoch) for offset, epoch in ((40, 5), (40, 6), (120, 5), (120, 6), (150, 5))] == [
        "expired",
        "gone",
        "held",
        "gone",
        "gone",
    ]
    assert holdings.divided(Span(5, 90, 170)) == [
        ("expired", Span(5, 90, 100)),
        ("held", Span(5, 100, 150)),
        ("gone", Span(5, 150, 170)),
    ]

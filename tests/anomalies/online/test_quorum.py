"""A metadata quorum that went back is reported when all answers agree on it for a minute, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from tests.anomalies.online.test_topology import Cluster, cluster

if TYPE_CHECKING:
    from collections.abc import Callable

S = 1_000_000_000


class Quorum:
    """Answers of a quorum, each 5 s, through one broker after the other; its log grows by 10 entries meanwhile."""

    def __init__(self) -> None:
        self.cluster = cluster()
        self.epoch, self.end, self.grows = 12, 90_000, 10
        self.through: tuple[int | None, ...] = (1, 2, 3)
        self.answers(3)
        assert self.cluster.said == []

    def answers(self, n: int) -> None:
        c = self.cluster
        for _ in range(n):
            c.rounds(5)
            self.end += self.grows
            through = self.through[c.sample % len(self.through)]
            c.fold(f.QuorumSeen(c.now_ns, 3001, self.epoch, "3001", self.end, through))

    def restarts_canary(self) -> None:
        c = self.cluster
        c.tracker = Tracker.load(c.tracker.dump())
        c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"))


def said(c: Cluster) -> list[str]:
    return [kind for kind, _, _ in c.said]


@pytest.mark.parametrize(
    ("epoch", "end", "words"),
    [
        (1, 50, "the epoch of its leader from 12 to 1, the end of its log from 90,030 to 60"),
        (1, 95_000, "the epoch of its leader from 12 to 1"),
        (12, 50, "the end of its log from 90,030 to 60"),
        (40, 89_000, "the end of its log from 90,030 to 89,010"),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_what_went_back_is_reported_after_a_minute_in_which_all_answers_are_older(
    epoch: int, end: int, words: str, *, restarted: bool
) -> None:
    q = Quorum()
    last_ns = q.cluster.now_ns
    if restarted:
        q.restarts_canary()
    q.epoch, q.end = epoch, end
    q.answers(6)
    if restarted:
        q.restarts_canary()
    q.answers(6)
    assert q.cluster.said == []
    q.answers(1)
    (found,) = q.cluster.open.values()
    assert (found.kind, found.severity, found.topic) == ("metadata-went-back", "critical", "")
    assert found.summary == f"the metadata quorum went back: {words}"
    assert (found.happened_after_ns, found.happened_before_ns) == (last_ns, last_ns + 5 * S)
    assert (found.evidence["client"], found.evidence["through_brokers"]) == ("quorum-watcher", [1, 2, 3])
    assert (found.evidence["leader_epoch_before"], found.evidence["leader_epoch"]) == (12, epoch)
    q.answers(60)
    assert said(q.cluster) == ["metadata-went-back"]


def test_a_quorum_that_goes_back_again_is_reported_again() -> None:
    q = Quorum()
    for end in (50, 20):
        q.epoch, q.end = 1, end
        q.answers(13)
    assert [one.evidence["end_before"] for one in q.cluster.open.values()] == [180]
    assert q.cluster.tracker.state.topology.quorum is not None


def one_newer(q: Quorum) -> None:
    """One broker still leads to the controller of now."""
    epoch, end = q.epoch, q.end
    for _ in range(20):
        q.epoch, q.end = 1, 50
        q.answers(10)
        q.epoch, q.end = epoch, end
        q.answers(1)


def few_brokers(q: Quorum) -> None:
    """One broker is cut off with a former controller, and no other one answers."""
    q.epoch, q.end, q.through = 11, 80_000, (1,)
    q.answers(100)


def unknown_brokers(q: Quorum) -> None:
    """Whichever broker is at hand may be one and the same."""
    q.epoch, q.end, q.through = 11, 80_000, (None,)
    q.answers(100)


def no_majority(q: Quorum) -> None:
    """A former controller commits nothing."""
    q.epoch, q.end, q.grows = 11, 80_000, 0
    q.answers(100)


def new_leader(q: Quorum) -> None:
    """A new leader does not know yet up to where the log is committed."""
    q.epoch, q.end, q.grows = 13, -1, 0
    q.answers(20)
    q.end, q.grows = 90_030, 10
    q.answers(20)


def elections(q: Quorum) -> None:
    for _ in range(30):
        q.epoch += 1
        q.answers(2)


def another(q: Quorum) -> None:
    """Another cluster answers: it is evidence for that alone, and the known one has not gone back."""
    epoch, end = q.epoch, q.end
    for _ in range(20):
        q.cluster.fold(f.ClusterMet(q.cluster.now_ns, "quorum-watcher", "elsewhere"))
        q.epoch, q.end = 1, 50
        q.answers(20)
        q.cluster.fold(f.RunnerStarted(q.cluster.now_ns, "canary-0", "test"))
    q.epoch, q.end = epoch, end
    q.answers(20)


@pytest.mark.parametrize(
    "happens", [one_newer, few_brokers, unknown_brokers, no_majority, new_leader, elections, another]
)
def test_an_older_answer_alone_is_none(happens: Callable[[Quorum], None]) -> None:
    q = Quorum()
    happens(q)
    assert set(said(q.cluster)) <= {"another-cluster"}


def test_a_former_controller_is_not_the_controller() -> None:
    q = Quorum()
    q.epoch, q.end = 13, q.end
    q.answers(1)
    c = q.cluster
    c.fold(f.QuorumSeen(c.now_ns, 3002, 12, "3001,3002", 90_000, 2))
    assert c.tracker.state.topology.controller == 3001
    assert c.tracker.state.topology.quorum_epoch == 13


def test_a_new_leader_that_does_not_know_its_high_watermark_yet_leads_and_the_end_before_is_remembered() -> None:
    q = Quorum()
    q.epoch, q.end, q.grows = 13, -1, 0
    q.answers(3)
    assert q.cluster.tracker.state.topology.quorum_epoch == 13
    q.end, q.grows = 50, 10
    q.answers(13)
    (found,) = q.cluster.open.values()
    assert found.summary == "the metadata quorum went back: the end of its log from 90,030 to 60"


@pytest.mark.parametrize(("first", "then"), [((12, 80_000), 1), ((9, 89_000), 1), ((12, 80_000), 12)])
def test_a_quorum_that_goes_back_again_is_reported_by_what_it_has_become(first: tuple[int, int], then: int) -> None:
    q = Quorum()
    q.epoch, q.end = first
    q.answers(1)
    q.epoch, q.end = then, 50
    q.answers(13)
    assert said(q.cluster) == ["metadata-went-back"]


def test_an_older_log_that_stands_is_no_quorum_s_whatever_was_answered_before_it() -> None:
    q = Quorum()
    q.epoch, q.end = 5, 10
    q.answers(1)
    q.epoch, q.end, q.grows = 11, 80_000, 0
    q.answers(60)
    assert said(q.cluster) == []

"""The quorum is asked through one broker after the other, and each answer is of the cluster that this broker is in."""

from __future__ import annotations

import pytest

from canary.facts import ClusterMet, QuorumSeen
from canary.threads.ports import SteadyClock
from canary.watching.elections.quorum_watcher import QuorumWatcher
from canary.wire import quorum, replicas
from canary.wire.errors import WireError
from canary.wire.quorum import Quorum
from canary.wire.replicas import Members
from tests.support.recording import Recording


class Brokers:
    """What each of three brokers answers: the quorum (an error, if it gives none), and the cluster it belongs to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.quorums: dict[int | None, Quorum | WireError] = dict.fromkeys((None, 1, 2, 3), Quorum(9, 4, 100, (), ()))
        self.clusters: dict[int | None, str] = dict.fromkeys((None, 1, 2, 3), "known")
        self.inbox = Recording()
        self.watcher = QuorumWatcher({}, self.inbox, SteadyClock(), 1)
        monkeypatch.setattr(quorum, "quorum", self.quorum)
        monkeypatch.setattr(replicas, "members", self.members)

    def quorum(self, _admin: object, broker: int | None = None) -> Quorum:
        found = self.quorums[broker]
        if isinstance(found, WireError):
            raise found
        return found

    def members(self, _admin: object, broker: int | None = None) -> Members:
        return Members([1, 2, 3], 2, self.clusters[broker])

    def looks(self, times: int) -> list[tuple[int, int | None, int | None]]:
        """Return epoch, high watermark and broker of each answer."""
        for _ in range(times):
            self.watcher.look(None)
        return [(one.leader_epoch, one.high_watermark, one.through) for one in self.inbox.of(QuorumSeen)]


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


def test_each_answer_is_a_fact_and_comes_through_the_next_broker(brokers: Brokers) -> None:
    assert [through for _, _, through in brokers.looks(7)] == [None, 3, 1, 2, 3, 1, 2]
    assert set(brokers.looks(0)) == {(4, 100, one) for one in (None, 1, 2, 3)}


def test_where_a_broker_does_not_answer_another_one_is_asked(brokers: Brokers) -> None:
    brokers.quorums[1] = WireError("it is gone")
    assert [through for _, _, through in brokers.looks(4)] == [None, 3, None, 2]
    assert brokers.watcher.failing is None


def test_a_refusal_is_no_silence(brokers: Brokers) -> None:
    brokers.looks(1)
    brokers.quorums[3] = WireError("no", refused=True, code="CLUSTER_AUTHORIZATION_FAILED")
    with pytest.raises(WireError):
        brokers.looks(1)


def test_a_broker_of_another_cluster_says_so_before_its_answer(brokers: Brokers) -> None:
    brokers.clusters[1] = "another"
    brokers.looks(4)
    met = [one.cluster_id for one in brokers.inbox.of(ClusterMet)]
    assert met == ["known", "another", "known"]
    kinds = [type(one) for one in brokers.inbox.facts]
    assert kinds == [ClusterMet, QuorumSeen, QuorumSeen, ClusterMet, QuorumSeen, ClusterMet, QuorumSeen]

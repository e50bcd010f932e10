"""A former id of a topic is accepted when every broker that answers has given it for a minute, and not before."""

from __future__ import annotations

import pytest

from canary.facts import TopicSeen
from canary.metrics.published import Published, TopicView
from canary.runner.cluster.clients import doubted_ids
from canary.threads import system
from canary.threads.ports import SteadyClock
from canary.watching import topic_ids
from canary.watching.topic_ids import Answers, Doubt, TopicIdWatcher
from canary.wire.errors import WireError
from tests.support.recording import Recording

OLD, NEW = ("a", 3), ("b", 3)


class Brokers:
    """What each of three brokers answers, or None; broker 2 is the controller."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[tuple[str, int] | None] = [OLD, OLD, OLD]
        self.doubt = {"t": Doubt("a", 60.0)}
        self.inbox, self.now = Recording(), 100.0
        monkeypatch.setattr(topic_ids, "answers", self.answers)
        monkeypatch.setattr(system, "monotonic", lambda: self.now)
        self.watcher = TopicIdWatcher({}, lambda: self.doubt, self.inbox, SteadyClock())

    def answers(self, *_: object) -> Answers:
        found = {number: {"t": one} for number, one in enumerate(self.given, 1) if one is not None}
        if not found:
            raise WireError("nobody is there")
        return Answers([1, 2, 3], 2, found)  # type: ignore[arg-type]

    def agreed(self, seconds: float) -> int:
        """Return how often it was accepted after so many more seconds."""
        self.now += seconds
        self.watcher.look()
        accepted = self.inbox.of(TopicSeen)
        assert all((one.topic_id, one.partitions, one.agreed) == ("a", 3, True) for one in accepted)
        return len(accepted)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


def test_it_is_accepted_after_a_minute_of_agreement(brokers: Brokers) -> None:
    brokers.given[0] = None  # who does not answer says nothing
    assert [brokers.agreed(s) for s in (0, 30, 29, 1)] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    "between",
    [[OLD, OLD, NEW], [OLD, None, OLD], [None, OLD, None], [None, None, None], [OLD, OLD, (None, 0)]],
    ids=["one knows better", "no controller", "too few", "nobody", "one knows no such topic"],
)
def test_a_round_without_agreement_begins_the_minute_again(
    brokers: Brokers, between: list[tuple[str, int] | None]
) -> None:
    assert brokers.agreed(0) == 0
    brokers.given = between
    assert brokers.agreed(30) == 0
    brokers.given = [OLD, OLD, OLD]
    assert [brokers.agreed(s) for s in (30, 59, 1)] == [0, 0, 1]


def test_nobody_is_asked_while_nothing_is_in_doubt(brokers: Brokers) -> None:
    assert brokers.agreed(0) == 0
    brokers.doubt, brokers.given = {}, [None, None, None]
    assert brokers.agreed(61) == 0
    brokers.doubt, brokers.given = {"t": Doubt("a", 60.0)}, [OLD, OLD, OLD]
    assert brokers.agreed(1) == 0


@pytest.mark.parametrize(("former", "agreed_s"), [(True, 60.0), (False, 600.0)])
def test_another_id_is_in_doubt_after_ten_seconds(*, former: bool, agreed_s: float) -> None:
    """A broker that was resumed gives a former one for moments; whose one is that was never seen, a fetch shows."""
    topics = (TopicView("t", "b", other_id="a", other_since_ns=5 * 10**9, other_is_former=former), TopicView("u", "c"))
    assert doubted_ids(Published(now_ns=14 * 10**9, topics=topics)) == {}
    assert doubted_ids(Published(now_ns=16 * 10**9, topics=topics)) == {"t": Doubt("a", agreed_s)}

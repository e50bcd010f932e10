"""Where a topic and its mirror are read from, with logs that are made up."""

from __future__ import annotations

import itertools
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from canary.anomalies.mirrormaker.facts import Row
from canary.anomalies.mirrormaker.mirror import Link, Mirror
from canary.probe.identity import Identity
from canary.watching.mirrormaker import mirror_watcher
from canary.watching.mirrormaker.logs import MOST_READ, Bounds, Logs, NotReadError, Progress
from canary.watching.mirrormaker.mirror_watcher import MirrorProgress, MirrorWatcher, _Sides
from tests.support.heard import Heard
from tests.support.messages import Message

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from canary.watching.mirrormaker.logs import Place

MINUTE = 60 * 10**9


class MadeUp(Logs):
    """One partition of one topic, whose records have the timestamps that their probes have."""

    def __init__(self, cluster: str, topic: str, progress: Progress) -> None:
        self.cluster, self.progress = cluster, progress
        self.rows: list[Row] = []
        self.refuses = False
        self.start = 0
        self._place, self._assigned = (topic, 0), {}

    def make_anew(self) -> None:
        self.rows = []
        self.forget([self._place])

    def partitions(self, topic: str) -> list[int]:
        return [0] if topic == self._place[0] else []

    def bounds(self, places: Collection[Place]) -> dict[Place, Bounds]:
        return dict.fromkeys(places, Bounds(self.start, len(self.rows), len(self.rows)))

    def newest(self, places: Collection[Place]) -> dict[Place, int]:
        return {place: self.rows[-1].sent_ns for place in places if self.rows}

    def begin(self, places: Mapping[Place, int]) -> None:
        if self.refuses and places:
            raise NotReadError(KafkaError(KafkaError.LEADER_NOT_AVAILABLE), "offsets")
        for place, since_ns in places.items():
            later = (row.offset for row in self.rows[self.start :] if row.sent_ns >= since_ns)
            self.progress.begin(place, next(later, len(self.rows)), self.start)

    def read(
        self, until: Mapping[Place, int], _paused: Collection[Place], _most_s: float, _most: int = 0
    ) -> set[Place]:
        for place, end in until.items():
            self.progress.read.setdefault(place, []).extend(self.rows[self.progress.next[place] : end])
            self.progress.next[place] = end
        return set()

    def between(self, _place: Place, start: int, end: int, _most_s: float) -> tuple[list[Row], int]:
        return self.rows[start:end], 0


class Pair:
    """A source with a probe each minute, and its mirror."""

    def __init__(self, bound_s: float = 60.0) -> None:
        self.ns = 10**18
        self.heard = Heard()
        self.mirror = Mirror(Link("dc1", "probes", "dc1.probes", bound_s))
        self.progress = MirrorProgress()
        self.source = MadeUp("dc1", "probes", self.progress.source)
        self.target = MadeUp("dc2", "dc1.probes", self.progress.target)
        self.watcher = MirrorWatcher({}, {}, self.mirror, self.progress, "no-checkpoints", self.heard, self)

    def now_ns(self) -> int:
        return self.ns

    def monotonic(self) -> float:
        return self.ns / 1e9

    def write(self, minutes: int) -> None:
        for _ in range(minutes):
            self.ns += MINUTE
            offset = len(self.source.rows)
            self.source.rows.append(Row(offset, Identity(7, 0, 0, int(self.ns // MINUTE)), self.ns))

    def copy(self, begin: int, end: int) -> None:
        for row in self.source.rows[begin:end]:
            self.target.rows.append(row._replace(offset=len(self.target.rows)))

    def look(self) -> None:
        self.watcher._look(_Sides(self.source, self.target))


@pytest.fixture(autouse=True)
def _rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(row: Any) -> Any:
        return row

    monkeypatch.setattr(mirror_watcher, "row_of", same)


def test_a_start_reads_from_the_newest_copy_on_however_old_it_is() -> None:
    pair = Pair(bound_s=7200.0)
    pair.write(10)
    pair.copy(0, 10)
    pair.write(180)
    pair.look()
    assert pair.watcher.latest.recovery_point_s == 179 * 60
    pair.copy(100, 190)
    pair.look()
    pair.ns += MINUTE
    pair.look()
    assert [(one.kind, one.offset, one.count) for one in pair.heard.said] == [("mirror-gap", 10, 90)]


def test_a_start_reads_at_least_as_far_back_as_what_is_not_copied_may_be_old() -> None:
    pair = Pair(bound_s=7200.0)
    pair.write(180)
    pair.look()
    assert (pair.watcher.latest.recovery_point_s or 0) >= 7200


def test_what_waits_when_reading_begins_anew_is_read_once_more_however_old_it_is() -> None:
    pair = Pair()
    pair.write(180)
    pair.copy(0, 1)
    pair.look()
    assert pair.watcher.latest.recovery_point_s == 178 * 60
    pair.target.make_anew()
    pair.look()
    assert (pair.watcher.latest.recovery_point_s or 0) >= 178 * 60, "and what lies just before it is not there either"


def test_that_reading_begins_anew_is_told_though_a_cluster_does_not_answer_just_then() -> None:
    pair = Pair()
    pair.write(10)
    pair.copy(0, 5)
    pair.look()
    pair.target.make_anew()
    pair.target.refuses = True
    with pytest.raises(NotReadError):
        pair.look()
    pair.target.refuses = False
    pair.copy(5, 10)
    pair.look()
    assert (pair.watcher.latest.waiting, pair.watcher.latest.recovery_point_s) == (0, 0.0), "none waits twice"
    pair.ns += MINUTE
    pair.look()
    assert pair.heard.said == []


def test_what_expired_in_the_mirror_before_it_was_read_is_no_gap() -> None:
    pair = Pair()
    pair.write(10)
    pair.copy(0, 10)
    pair.look()
    pair.write(20)  # and nobody looks
    pair.copy(10, 30)
    pair.target.start = 25
    pair.look()
    pair.ns += MINUTE
    pair.look()
    pair.look()
    assert pair.heard.said == []
    assert pair.watcher.latest.counts["unjudged"] >= 15


def test_a_source_that_is_made_anew_is_missed_from_its_first_record_on() -> None:
    pair = Pair()
    pair.write(10)
    pair.copy(0, 10)
    pair.look()
    pair.source.make_anew()
    pair.write(30)
    pair.copy(20, 30)  # it goes on at the offset that it had committed
    pair.look()
    pair.ns += MINUTE
    pair.look()
    assert [(one.kind, one.offset, one.count) for one in pair.heard.said] == [("mirror-gap", 0, 20)]


class Somewhere:
    """A client that was told a cluster's id, and that there is no such topic."""

    def __init__(self, cluster_id: str) -> None:
        self.told = cluster_id

    def cluster_id(self, timeout: float) -> str:
        assert timeout == 0
        return self.told

    def poll(self, _timeout: float) -> None: ...

    def describe_topics(self, topics: Any, **_: object) -> dict[str, Future[Any]]:
        gone: Future[Any] = Future()
        gone.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return dict.fromkeys(topics.topic_names, gone)

    def consume(self, _number: int, _timeout: float) -> list[Message]:
        return [Message(0)]

    def incremental_assign(self, _places: object) -> None: ...


def test_what_another_cluster_says_of_a_mirrored_topic_is_neither_its_end_nor_its_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    progress = Progress(next={("t", 0): 0})
    logs = Logs({"bootstrap.servers": "127.0.0.1:1"}, "reader", "dc1", progress, lambda: False)
    monkeypatch.setattr(logs, "_admin", Somewhere("here"))
    assert logs.partitions("t") == []
    monkeypatch.setattr(logs, "_consumer", Somewhere("there"))
    with pytest.raises(NotReadError, match="dc1: a new connection leads to another cluster, there"):
        logs.read({("t", 0): 10}, (), 3600)
    assert (progress.met, progress.take(("t", 0))) == ("there", [])
    monkeypatch.setattr(logs, "_admin", Somewhere("there"))
    with pytest.raises(NotReadError, match="leads to another cluster"):
        logs.partitions("t")


def test_so_many_records_are_read_at_once_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Progress(next={("t", 0): 0})
    logs = Logs({"bootstrap.servers": "127.0.0.1:1"}, "reader", "dc1", progress, lambda: False)
    handed = itertools.count()

    class Endless(Somewhere):
        def incremental_assign(self, _places: object) -> None: ...

        def consume(self, number: int, _timeout: float) -> list[Message]:
            return [Message(next(handed)) for _ in range(number)]

    monkeypatch.setattr(logs, "_client", lambda: Endless("here"))
    assert logs.read({("t", 0): 10**9}, (), 3600) == set()
    assert len(progress.take(("t", 0))) == MOST_READ

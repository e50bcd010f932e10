"""A whole log directory beside a cluster that is another one, has another topic, or does not answer for a partition."""

from __future__ import annotations

import itertools
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from canary.errors import UserError
from canary.salvage import cluster, run
from canary.salvage.cluster import ClusterView, PartitionLog, Topic, UnknownError
from canary.salvage.directory import opened
from canary.salvage.salvaged import made, manifest_of
from canary.salvage.salvaging import Wanted
from canary.wire.epochs import Boundaries, Boundary
from canary.wire.errors import WireError
from canary.wire.fetch import Fetched
from tests.salvage.logs import Memory, batch, folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.wire.records import Batch

LOG = [batch(0, 1, b"a1", b"b1"), batch(2, 2, b"c1")]


class View:
    """A cluster C1 that has the first batch, of topic t with the id ID."""

    name = "prod"

    def __init__(self, topic_id: str | None = "ID") -> None:
        self.topic_id = topic_id

    def cluster_id(self) -> str:
        return "C1"

    def topic(self, name: str) -> Topic | None:
        return None if name == "gone" else Topic(name, self.topic_id, 1)

    def log(self, topic: Topic, _partition: int, *, same: bool) -> Any:
        if topic.name == "offline":
            raise UnknownError("offline:0 has no leader")
        return Memory(LOG[:1] if same else [])


def salvaged(view: Any, path: Path, out: Path | None, *topics: str, any_topic_id: bool = False) -> dict[str, Any]:
    found = opened(path, topics)
    return run.salvage(view, found, Wanted(), out, any_topic_id=any_topic_id, show=lambda *_: None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    for topic in ("t", "offline", "gone"):
        (folder(path, LOG, topic=topic) / "partition.metadata").write_text("version: 0\ntopic_id: ID\n")
    (path / "meta.properties").write_text("cluster.id=C1\nnode.id=1\n")
    return path


def test_a_partition_for_which_nobody_answers_is_unknown_and_the_others_are_done(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    document = salvaged(View(), data, out, "t", "offline")
    assert document["unknown"] == [{"topic": "offline", "partition": 0, "reason": "offline:0 has no leader"}]
    assert [(one["topic"], one["counts"]["salvaged"]) for one in document["partitions"]] == [("t", 1)]
    assert (document["cluster_id"], document["broker"], document["total"]["held"]) == ("C1", 1, 2)
    assert manifest_of(out) == document
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "t-0.parquet"]


def test_a_topic_that_was_deleted_or_made_again_is_refused_unless_that_is_asked_for(data: Path) -> None:
    with pytest.raises(UserError, match=r"topic gone in cluster prod: no such topic.*--any-topic-id"):
        salvaged(View(), data, None, "gone")
    with pytest.raises(UserError, match=r"it was made again \(topic id NEW, in the directory ID\)"):
        salvaged(View("NEW"), data, None, "t")
    for view, topic in ((View(), "gone"), (View("NEW"), "t")):
        document = salvaged(view, data, None, topic, any_topic_id=True)
        assert document["total"]["salvaged"] == 3
        assert any(note.startswith("the topic: ") for note in document["partitions"][0]["notes"])


def test_of_a_topic_that_was_made_again_the_partitions_that_the_cluster_has_are_no_strangers(data: Path) -> None:
    other = data / "t-1"
    (data / "t-0").rename(other)
    (other / "partition.metadata").write_text("version: 0\ntopic_id: OLD\n")
    (folder(data, LOG, topic="t") / "partition.metadata").write_text("version: 0\ntopic_id: ID\n")
    document = salvaged(View(), data, None, "t", any_topic_id=True)
    assert [one["counts"]["salvaged"] for one in document["partitions"]] == [1, 3]


def test_a_partition_that_the_topic_does_not_have_is_not_taken_for_one_that_lost_everything(data: Path) -> None:
    (data / "t-0").rename(data / "t-7")
    (data / "t-7" / "partition.metadata").unlink()
    with pytest.raises(UserError, match="topic t in cluster prod: it has 1 partitions, and t-7 is none of them"):
        salvaged(View(), data, None, "t")
    assert salvaged(View(), data, None, "t", any_topic_id=True)["total"]["salvaged"] == 3


def test_a_broker_that_starts_meanwhile_ends_it(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = made(tmp_path / "out")
    running: list[Path] = []

    class Starts(View):
        def log(self, topic: Topic, partition: int, *, same: bool) -> Any:
            monkeypatch.setattr("canary.salvage.directory._refuse_if_running", refuse)
            return super().log(topic, partition, same=same)

    def refuse(root: Path) -> None:
        running.append(root)
        raise UserError("a broker runs on it")

    with pytest.raises(UserError, match="a broker runs on it"):
        salvaged(Starts(), data, out, "t")
    assert running == [data]
    assert not (out / "manifest.json").exists()


def test_a_batch_of_the_cluster_that_cannot_be_read_makes_its_partition_unknown(data: Path, tmp_path: Path) -> None:
    class Damaged(Memory):
        def batches(self, start: int) -> Iterator[Batch]:
            for one in super().batches(start):
                yield replace(one, crc=one.crc ^ 1)

    class Broken(View):
        def log(self, topic: Topic, partition: int, *, same: bool) -> Any:
            log = super().log(topic, partition, same=same)
            return Damaged([*log.told, batch(2, 3, b"c2")])

    document = salvaged(Broken(), data, made(tmp_path / "out"), "t")
    assert document["partitions"] == []
    assert "the CRC of the batch of offset 2 is wrong" in document["unknown"][0]["reason"]


def test_what_retention_removes_while_the_cluster_is_asked_is_expired_and_not_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view, starts = ClusterView("prod", None, None), [0]

    def epochs(_place: object) -> Boundaries:
        starts.append(50)
        return Boundaries((Boundary(1, starts[-1]),), 100, whole=True)

    monkeypatch.setattr(view, "_leader", lambda *_: 1)
    monkeypatch.setattr(view, "_start", lambda _place: starts[-1])
    monkeypatch.setattr(view, "_boundaries", epochs)
    held = view.log(Topic("t", "ID", 1), 0).holdings
    assert [held.fate(offset, 1) for offset in (0, 49, 50, 99, 100)] == ["expired"] * 2 + ["held"] * 2 + ["gone"]


def test_a_directory_of_another_cluster_is_refused(data: Path) -> None:
    (data / "meta.properties").write_text("cluster.id=C2\n")
    with pytest.raises(UserError, match="is of cluster C2, and prod is C1"):
        salvaged(View(), data, None, "t")


class Learning:
    """An AdminClient of brokers that learn of a topic one after another: each question first meets one that has not."""

    def __init__(self) -> None:
        self.unaware = {"describe": True, "settings": True}

    def _answer(self, what: str, found: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.unaware.get(what):
            self.unaware[what] = False
            future.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        else:
            future.set_result(found)
        return future

    def describe_topics(self, _topics: Any, **_: Any) -> dict[str, Future[Any]]:
        return {"new": self._answer("describe", SimpleNamespace(topic_id=None, partitions=[1, 2]))}

    def describe_configs(self, resources: Any, **_: Any) -> dict[Any, Future[Any]]:
        return {resources[0]: self._answer("settings", {})}

    def list_topics(self, **_: Any) -> None:
        return None


def test_a_broker_that_has_not_learned_of_a_topic_that_was_made_is_asked_again() -> None:
    assert ClusterView("prod", Learning(), None).topic("new") is None, "nobody says that it is there"
    assert ClusterView("prod", Learning(), None).topic("new", made=True) == Topic("new", None, 2)


class Former:
    """An AdminClient that asks a dead leader, until metadata, asked for ``late`` times, names the one of now."""

    def __init__(self, late: int) -> None:
        self._late = late

    def list_offsets(self, places: Any, **_: Any) -> dict[Any, Future[Any]]:
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(offset=-1001 if self._late else 7, leader_epoch=None))
        return dict.fromkeys(places, future)

    def list_topics(self, **_: Any) -> None:
        self._late = max(self._late - 1, 0)


def test_an_offset_that_no_leader_told_is_asked_for_again_of_the_leader_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_AGAIN_S", 0.0)
    assert ClusterView("prod", Former(2), None)._start(TopicPartition("t", 0)) == 7
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.0)
    with pytest.raises(UserError, match="cluster prod: the bounds of t:0: its leader does not answer"):
        ClusterView("prod", Former(2), None)._start(TopicPartition("t", 0))


class Slow(ClusterView):
    """Its leader answers a Fetch with the batch that begins there, each time after so many that give nothing."""

    def __init__(self, empty: int, monkeypatch: pytest.MonkeyPatch, *, tiered: bool) -> None:
        super().__init__("prod", None, None)
        self.answers = itertools.cycle([False] * empty + [True])
        self.of = Topic("t", "ID", 1, {"remote.storage.enable": str(tiered).lower()})
        monkeypatch.setattr(cluster, "fetch", self.fetch)
        monkeypatch.setattr(cluster, "_AGAIN_S", 0.0)

    def _leader(self, _topic: str, _partition: int) -> int:
        return 1

    def fetch(self, _wire: Any, _topic: str, _partition: int, _broker: int, offset: int) -> Fetched:
        there = next(self.answers)
        data = b"".join(one.encoded() for one in LOG if there and one.base == offset)
        return Fetched(3, 3, 0, data)

    def read(self) -> list[int]:
        return [one.base_offset for one in PartitionLog(self, self.of, 0).batches(0)]


def test_a_tier_that_gives_nothing_in_time_is_asked_again_and_never_taken_for_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Slow(2, monkeypatch, tiered=True).read() == [0, 2]
    assert Slow(1, monkeypatch, tiered=False).read() == [], (
        "a log that compaction has emptied at its end gives nothing either"
    )
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.0)
    with pytest.raises(UserError, match="from offset 0 on: the remote tier does not give them in time") as raised:
        Slow(1, monkeypatch, tiered=True).read()
    assert raised.value.exit_status == 3


def test_what_another_cluster_holds_is_nothing_that_the_known_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new connection to the leader leads there; whoever asks which cluster it is, asks on an old one."""
    slow, answers = Slow(0, monkeypatch, tiered=False), iter(("here", "there"))
    monkeypatch.setattr(cluster, "cluster_at", lambda _wire, _broker: next(answers))
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(slow, "_known", "here")
    with pytest.raises(UserError, match="what answers as broker 1 is of cluster there"):
        slow.read()


def test_an_answer_that_stays_makes_one_partition_unknown_and_no_answer_ends_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("canary.salvage.cluster._PATIENCE_S", 0.0)
    view = ClusterView("prod", SimpleNamespace(), None)

    def fails(error: WireError) -> Any:
        def ask() -> None:
            raise error

        return ask

    for known in (WireError("no", refused=True), WireError("no", code="LEADER_NOT_AVAILABLE")):
        with pytest.raises(UnknownError) as raised:
            view._again(fails(known), "records")
        assert raised.value.exit_status == 3
    with pytest.raises(UserError, match="cluster prod: records: no") as raised_:
        view._again(fails(WireError("no")), "records")
    assert not isinstance(raised_.value, UnknownError)
    assert raised_.value.exit_status == 3

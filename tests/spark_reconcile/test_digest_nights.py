"""Nights of digests over a log that lives: what it lost is said once and exactly, and nothing else is.

The cluster and Spark's reading are played by a model here; the same on real brokers is in `test_digests`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from unittest.mock import Mock

import numpy as np
import pytest

from canary.facts.digests import place
from canary.settings import Settings
from spark_reconcile.digests import asking, demand, keeping, night, rereading, tree
from spark_reconcile.digests.findings import exit_status, sentences
from spark_reconcile.digests.keeping import Kept
from spark_reconcile.digests.night import Wanted
from spark_reconcile.digests.reading import Range, Read, batches
from spark_reconcile.digests.result import Digested
from spark_reconcile.digests.tree import LEAF, Leaves
from spark_reconcile.dump.kafka_bounds import Cluster, Span, Topic
from spark_reconcile.errors import BadInputError, UnreachableError
from tests.support.seeds import cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


@dataclass
class Log:
    """A partition: what a read_committed consumer is given, by offset; markers take offsets and are not given."""

    start: int = 0
    end: int = 0
    records: dict[int, int] = field(default_factory=dict)
    led: bool = True
    behind: int = 0
    """Offsets that an open transaction holds back."""

    def write(self, count: int, *, markers: int = 0) -> None:
        for offset in range(self.end, self.end + count):
            self.records[offset] = next(_CONTENT)
        self.end += count + markers

    def cut(self, end: int, start: int | None = None) -> None:
        """Lose everything from an offset on; another leader may have an older start."""
        self.end = end
        self.records = {offset: one for offset, one in self.records.items() if offset < end}
        self.start = min(self.start if start is None else start, end)

    def expire(self, start: int) -> None:
        self.start = max(self.start, start)

    def read(self, start: int, end: int) -> Leaves:
        rows = [(o, self.records[o]) for o in sorted(self.records) if max(start, self.start) <= o < min(end, self.end)]
        offsets = np.array([offset for offset, _ in rows], dtype=np.int64)
        one = np.ones(len(rows), dtype=np.int64)
        places = np.array([place(offset, 0, record) for offset, record in rows], dtype=np.int64)
        bits = np.left_shift(np.uint64(1), (offsets % LEAF).astype(np.uint64))
        return Leaves.none().joined(Leaves(offsets // LEAF, bits, places, one, one, one * next(_CLOCK)))


@dataclass
class World:
    """A cluster with topics, and what happens to them while they are read."""

    logs: dict[str, list[Log]]
    ids: dict[str, str | None] = field(default_factory=dict)
    compacted: dict[str, bool | None] = field(default_factory=dict)
    name: str = "c"
    folder: str = ""
    most: int = 1 << 12
    reading: Callable[[Sequence[Range]], None] = lambda _: None
    """Called before each job of Spark."""

    def names(self) -> list[str]:
        return sorted(self.logs)

    def topics(self, names: Sequence[str]) -> list[Topic]:
        some = [name for name in names if name in self.logs]
        return [
            Topic(name, self.ids.get(name, "A"), len(self.logs[name]), -1, -1, self.compacted.get(name, False))
            for name in some
        ]

    def unchanged(self, topics: Sequence[Topic], doing: str) -> None:
        """As the real one says it."""
        Cluster.unchanged(self, topics, doing)  # type: ignore[arg-type]

    def connected_anew(self) -> Self:
        return self

    def made_anew(self, topics: Sequence[Topic]) -> list[str]:
        """As the real one says it, too."""
        return Cluster.made_anew(self, topics)  # type: ignore[arg-type]

    def spans(self, topics: Sequence[Topic], levels: Sequence[str]) -> list[Span]:
        return [
            Span(topic.name, number, level, log.start, log.end + (log.behind if level != levels[0] else 0), 0)
            for level in levels
            for topic in topics
            for number, log in enumerate(self.logs.get(topic.name, ()))
            if log.led
        ]

    def starts(self, topics: Sequence[Topic]) -> dict[tuple[str, int], int]:
        return {(one.topic, one.partition): one.start for one in self.spans(topics, ["any"])}

    def night(self, topics: Sequence[str] = ("*",), *, keep: bool = True, **how: Any) -> Digested:
        kept = Kept(self.folder)
        found, trees = night.digest(Mock(), Wanted("c", {}, topics, **how), kept)
        if keep:
            kept.save(trees)
        return found


class Reader:
    """Reads the model's logs as `reading.Reader` has Spark read those of brokers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.records = 0

    def read(self, wanted: Sequence[Range]) -> Iterator[list[Read]]:
        for batch in batches(wanted, self._world.most):
            self._world.reading(batch)
            found = [Read(one, self._world.logs[one.place[0]][one.place[1]].read(one.start, one.end)) for one in batch]
            self.records += sum(one.leaves.count for one in found)
            yield found


_CONTENT = iter(range(1, 1 << 60))
_CLOCK = iter(range(1, 1 << 60))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World({"orders": [Log()]}, folder=str(tmp_path))
    monkeypatch.setattr(night, "Cluster", lambda *_: made)
    monkeypatch.setattr(night, "Reader", lambda *_: Reader(made))
    monkeypatch.setattr(night, "epochs", lambda *_: {})
    return made


def named(found: Digested) -> dict[tuple[int, str], list[tuple[int, int]]]:
    """Return the offsets [start, end) that are said to be lost or changed, by partition and kind."""
    return {(one.partition, one.kind): [(run.offset, run.end) for run in one.runs] for one in found.findings}


def test_a_log_that_began_anew_below_what_was_known_of_it_is_known_from_its_new_start(world: World) -> None:
    log = world.logs["orders"][0]
    log.write(2000)
    log.expire(1000)
    world.night()
    log.cut(0)
    log.write(500)
    assert named(world.night()) == {(0, "lost"): [(1000, 2000)]}
    log.cut(100)
    log.write(10)
    assert named(world.night()) == {(0, "lost"): [(110, 500)]}


def test_a_log_without_a_record_that_began_anew_is_known_from_its_new_start(world: World) -> None:
    log = world.logs["orders"][0]
    log.write(2000)
    log.expire(2000)
    world.night()
    log.cut(0)
    log.write(500)
    world.night()
    log.cut(100)
    assert named(world.night()) == {(0, "lost"): [(100, 500)]}


def test_retention_that_goes_on_while_what_differs_is_read_again_is_silent(world: World) -> None:
    log = world.logs["orders"][0]
    log.write(2000)
    world.night()
    world.reading = lambda _: log.expire(log.start + 100)
    assert named(world.night(everything=True)) == {}


def test_records_that_reappear_with_a_leader_whose_log_starts_earlier_are_silent(world: World) -> None:
    log = world.logs["orders"][0]
    log.write(300)
    world.reading = lambda _: log.expire(100)
    world.night()
    world.reading = lambda _: None
    log.start = 0
    assert named(world.night(everything=True)) == {}


def test_a_topic_that_is_made_anew_while_it_is_read_has_lost_nothing(world: World) -> None:
    world.logs["orders"][0].write(2000)
    world.night()

    def make_anew(_: object) -> None:
        world.ids["orders"] = "B"
        world.logs["orders"] = [Log()]

    world.reading = make_anew
    with pytest.raises(UnreachableError, match="topic orders of cluster c was made anew while it was digested"):
        world.night(everything=True)
    world.reading = lambda _: None
    assert world.night().notes == [
        "topic orders was deleted and made anew: what was known of the one before is forgotten"
    ]


def test_what_compaction_removed_before_it_was_switched_off_is_not_lost_and_may_reappear(world: World) -> None:
    log = world.logs["orders"][0]
    world.compacted["orders"] = True
    log.write(2000)
    world.night()
    records = dict(log.records)
    for offset in range(100, 200):
        del log.records[offset]
    world.compacted["orders"] = False
    log.write(100)
    found = world.night(everything=True)
    assert (named(found), found.differences.gone) == ({}, 100)
    log.records |= records  # another replica leads, which had not compacted yet
    assert named(world.night(everything=True)) == {}
    log.cut(2050)
    assert named(world.night(everything=True)) == {(0, "lost"): [(2050, 2100)]}


def test_a_compacted_log_whose_last_known_records_are_gone_is_not_said_to_be_whole(world: World) -> None:
    log = world.logs["orders"][0]
    world.compacted["orders"] = True
    log.write(300)
    world.night()
    log.cut(192)
    log.write(500)
    for offset in range(192, 300):
        del log.records[offset]
    found = world.night()
    assert (named(found), found.taken_over, found.unproven, found.differences.gone) == ({}, 0, 256, 44)
    assert "it is unknown whether their logs were cut" in " ".join(sentences(found.summary()))
    assert (again := world.night()).differences.gone == 0, "it is counted once"
    assert (again.taken_over, again.unproven) == (648 - again.read, 0)


def test_what_is_gone_from_a_topic_whose_settings_are_unknown_is_unknown(world: World) -> None:
    log = world.logs["orders"][0]
    log.write(300)
    world.night()
    world.compacted["orders"] = None
    assert world.night(everything=True).not_known == 0
    del log.records[70]
    found = world.night(everything=True)
    assert (named(found), found.unjudged, found.not_known) == ({}, [("orders", 0)], 1)
    assert "it is unknown whether their topics are compacted (orders-0)" in " ".join(sentences(found.summary()))


def test_a_topic_that_was_hidden_for_a_night_is_compared_with_what_it_was(world: World) -> None:
    world.logs["orders"][0].write(200)
    world.night()
    hidden = world.logs.pop("orders")
    assert "topic orders is not there" in " ".join(world.night().notes)
    world.logs["orders"] = hidden
    hidden[0].cut(100)
    assert named(world.night()) == {(0, "lost"): [(100, 200)]}
    back = Kept(world.folder).trees
    assert back is not None
    assert [tree.absent_ns for tree in back.trees.values()] == [None], "the time that it may be away begins anew"


@pytest.mark.parametrize("topic_id", [None, "A"])
def test_a_topic_that_stays_away_is_forgotten(world: World, topic_id: str | None, monkeypatch: Any) -> None:
    world.ids["orders"] = topic_id
    world.logs["orders"][0].write(200)
    world.night()
    del world.logs["orders"]
    monkeypatch.setattr(asking, "ABSENT_NS", 1)
    if topic_id is not None:
        world.night()
    assert world.night().notes == ["topic orders is gone: what was known of it is forgotten"]
    kept = Kept(world.folder).trees
    assert kept is not None
    assert kept.trees == {}


def test_a_name_without_a_topic_is_unknown_and_a_new_topic_was_compared_with_nothing(world: World) -> None:
    first = world.night(["orders"])
    world.logs["payments"] = [Log()]
    found = world.night(["orders", "payments", "ordres"])
    assert (found.missing, found.begun, found.not_known) == (["ordres"], ["payments"], 1)
    said = " ".join(sentences(found.summary()))
    assert "Nothing was known of payments" in said
    assert "There is no topic ordres." in said
    assert [exit_status(one, keep=True) for one in (first, found)] == [0, 3]
    again = world.night(["orders", "payments"])
    assert [exit_status(one, keep=False) for one in (first, again)] == [3, 0]


def test_partitions_that_are_not_described_any_more_are_unknown_and_stay_known(world: World) -> None:
    world.logs["orders"] = [Log(), Log()]
    for log in world.logs["orders"]:
        log.write(100)
    world.night()
    second = world.logs["orders"].pop()
    assert world.night().unknown == [("orders", 1)]
    second.cut(50)
    world.logs["orders"].append(second)
    assert named(world.night()) == {(1, "lost"): [(50, 100)]}


def test_the_id_of_a_topic_is_taken_over_once_the_cluster_tells_it(world: World) -> None:
    world.ids["orders"] = None
    world.logs["orders"][0].write(100)
    world.night()
    world.ids["orders"] = "A"
    world.night()
    world.ids["orders"] = "B"
    assert "deleted and made anew" in world.night().notes[0]


def test_what_is_read_again_because_a_log_was_cut_is_not_taken_over(world: World) -> None:
    world.logs["orders"][0].write(300)
    world.night()
    world.logs["orders"][0].cut(192)
    world.logs["orders"][0].write(500)
    found = world.night()
    assert named(found) == {(0, "changed"): [(192, 256), (256, 300)]}
    assert found.taken_over == 0


def test_records_behind_an_open_transaction_are_named_once_it_has_held_them_back_for_a_night(world: World) -> None:
    log = world.logs["orders"][0]
    log.write(100)
    log.behind = 10
    assert world.night().held == []
    found = world.night()
    assert (found.held, found.not_known) == ([("orders", 0)], 0)
    assert "behind an open transaction" in " ".join(sentences(found.summary()))
    log.write(1)
    assert world.night().held == []


def test_a_finding_says_when_its_records_were_last_read_not_when_the_last_night_was(world: World) -> None:
    log = world.logs["orders"][0]
    log.write(300)
    read_ns = world.night().oldest_ns
    world.night()
    del log.records[10]
    (finding,) = world.night(everything=True).findings
    assert finding.there_ns == read_ns


@dataclass
class Snapshot:
    """What a night knew of a log: its records of [start, end)."""

    start: int = 0
    end: int = 0
    records: dict[int, int] = field(default_factory=dict)

    def gone(self, log: Log) -> tuple[list[int], set[int]]:
        """Return the offsets that are lost, and the leaves with other records; never that of the log's start."""
        first = max(self.start, log.start)
        before = {offset: one for offset, one in self.records.items() if offset >= first}
        now = {o: one for o, one in log.records.items() if first <= o < self.end}
        changed = set()
        for leaf in {offset // LEAF for offset in before | now} - {first // LEAF}:
            old, new = ({o: one for o, one in some.items() if o // LEAF == leaf} for some in (before, now))
            if new.keys() - old.keys() or (new.keys() == old.keys() and new != old):
                changed.add(leaf)
        return [offset for offset in before if offset not in log.records], changed

    def after(self, log: Log, *, whole: bool) -> Snapshot:
        """Return what the night after knows; ``whole``: it has read all of the log."""
        anew = not self.records or (whole and log.start < self.end)
        start = log.start if anew else max(self.start, log.start)
        return Snapshot(start, log.end, {o: one for o, one in log.records.items() if o >= start})


def live(chance: random.Random, log: Log) -> None:
    """Have something happen to a log: writes, losses, retention, another leader with an older start."""
    what = chance.choice(["write", "write", "cut", "cut between leaves", "expire", "start earlier", "wipe"])
    if what == "write":
        log.write(chance.randint(0, 300), markers=chance.choice([0, 0, 3, 100]))
    elif what == "cut":
        log.cut(chance.randint(max(log.start, log.end - 300), log.end))
    elif what == "cut between leaves":
        log.cut(max(chance.randint(log.start, log.end) // LEAF * LEAF, log.start))
    elif what == "expire":
        log.expire(chance.randint(log.start, log.end))
    elif what == "start earlier":
        log.start = chance.randint(0, log.start)
    elif chance.random() < 0.2:
        log.cut(0)


def test_nights_name_what_was_lost_or_changed_since_the_one_before_and_nothing_else(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "CHUNK", 4)
    monkeypatch.setattr(keeping, "_OFFSETS", 4 * LEAF)
    monkeypatch.setattr(rereading, "BLOCK", 2)
    for seed in cases("nights of digests", 40, 2008, 102650, 102721):
        chance = random.Random(seed)  # noqa: S311  # tests want to be repeated, not to be secret
        world.folder, world.most = str(tmp_path / str(seed)), chance.choice([64, 192, 1000])
        world.logs["orders"] = [Log(), Log()]
        known = [Snapshot(), Snapshot()]
        for _ in range(chance.randint(2, 6)):
            for log in world.logs["orders"]:
                for _ in range(chance.randint(0, 3)):
                    live(chance, log)
            everything, reread = chance.random() < 0.3, chance.choice([0, 0.03, 0.5, 1])
            found = named(world.night(everything=everything, reread=reread))
            for number, log in enumerate(world.logs["orders"]):
                before = known[number]
                lost, changed = (found.get((number, kind), []) for kind in ("lost", "changed"))
                first = max(before.start, log.start)
                said = {start // LEAF for start, _ in changed} - {first // LEAF}
                gone, others = before.gone(log)
                assert [o for run in lost for o in range(*run)] == gone
                if any(offset >= first for offset in before.records):  # else no record is known that could be another
                    assert said == others
                whole = everything or log.end < before.end or bool(lost or changed)
                known[number] = before.after(log, whole=whole)


def test_digests_of_other_topics_stay_in_a_folder_of_ones_own(world: World) -> None:
    for name in ("orders", "payments"):
        world.logs[name] = [Log()]
        world.logs[name][0].write(100)
        asked = Wanted("c", {}, [name])
        assert exit_status(demand.compare(Mock(), asked, world.folder, keep=True, everything=False), keep=True) == 0
    for name in ("orders", "payments"):
        world.logs[name][0].cut(50)
        asked = Wanted("c", {}, [name])
        found = demand.compare(Mock(), asked, world.folder, keep=False, everything=False)
        assert named(found) == {(0, "lost"): [(50, 100)]}


@pytest.mark.parametrize("against", [None, "var/log/digests", "var/log/../log/digests/"])
def test_what_nights_compare_with_is_replaced_by_nights_alone(against: str | None) -> None:
    settings = Settings.model_validate(
        {"probe_log": {"url": "var/log"}, "clusters": [{"name": "c", "kafka": {"bootstrap.servers": "127.0.0.1:1"}}]}
    )
    with pytest.raises(BadInputError, match="--keep: what the next night compares with is replaced by nights alone"):
        demand.wanted(settings, None, ["orders"], against, keep=True)
    ((_, folder),) = demand.wanted(settings, None, ["orders"], "mine", keep=True)
    assert folder == "mine/c"


@pytest.mark.parametrize("against", ["", "/", " "])
def test_no_folder_to_compare_with_is_bad_input(against: str) -> None:
    with pytest.raises(BadInputError, match=r"--against: .* is no folder of digests; name one"):
        demand.wanted(Settings.model_validate({}), None, ["orders"], against, keep=True)

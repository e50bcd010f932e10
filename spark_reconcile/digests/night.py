"""A run of digests: decides what is read, compares it with what is kept, and says what was lost or changed.

A log is cut at its end only: an election that loses records loses the last ones, and whatever is written afterwards
makes other last ones. So a partition whose last known leaf is what it was has lost nothing by an election, and its
older leaves are taken over from the run before. What elections do not explain (a damaged file, a lost segment) is found
by reading old leaves again: the share ``reread`` of them in each run, those first that were not read for longest. A
partition whose end went back, or whose last known leaf is another one, is read whole.

Nothing is said on one reading's word: leaves that differ are read again, with the log's ends asked anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import numpy as np

from canary.watching.selection import Selection
from spark_reconcile.digests.epochs import cuts, epochs
from spark_reconcile.digests.keeping import Kept, Tree, Trees
from spark_reconcile.digests.reading import LEVEL, Place, Range, Read, Reader
from spark_reconcile.digests.tree import BITS, Differences, Leaves, Run, compare, merged
from spark_reconcile.dump.kafka_bounds import Cluster, Span, Topic
from spark_reconcile.errors import UnreachableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOCK: Final = 1 << 10
"""Leaves that are read again together: 65,536 offsets."""
Kind: TypeAlias = Literal["lost", "replaced", "changed"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_INTERNAL: Final = "__"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose digests: ``topics`` (names or patterns) of a cluster, reached by librdkafka ``config``.

    ``reread``: the share of the known records that is read again. ``everything``: all of them are.
    """

    cluster: str
    config: Mapping[str, Any]
    topics: Sequence[str]
    reread: float = 0.0
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """Records of a partition that were lost, or replaced, or of which one a run at least was changed.

    ``runs`` of offsets; ``cut``: the offset at which an election has cut the log, if that is known.
    """

    topic: str
    topic_id: str | None
    partition: int
    kind: Kind
    runs: tuple[Run, ...]
    cut: int | None = None


@dataclass(slots=True)
class Digested:
    """What a run read and found.

    Attributes:
        findings: what is lost or changed since what was kept.
        unknown: partitions that have no leader, of which what was kept still holds nothing new.
        read: records that were read; of these ``verified`` are known to be what they were.
        taken_over: known records that were not read; of the ``oldest_ns`` ones that is when they were last read.
        expired: known records that are below the log's start now, of leaves that are so altogether.
        since_ns: when what it was compared with was read.
        notes: what else there is to say.
    """

    findings: list[Finding] = field(default_factory=list)
    unknown: list[Place] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    differences: Differences = field(default_factory=Differences)
    read: int = 0
    records: int = 0
    partitions: int = 0
    taken_over: int = 0
    expired: int = 0
    oldest_ns: int | None = None
    since_ns: int | None = None
    seconds: float = 0.0

    def summary(self) -> dict[str, Any]:
        """Return it as JSON values: counts of records, partitions; times in ns; places as [topic, partition]."""
        lost, replaced = (
            sum(run.size for one in self.findings if one.kind == kind for run in one.runs)
            for kind in ("lost", "replaced")
        )
        changed = sum(len(one.runs) for one in self.findings if one.kind == "changed")
        return {
            "partitions": self.partitions,
            "records": self.records,
            "records_read": self.read,
            "verified": self.differences.compared,
            "taken_over": self.taken_over,
            "oldest_ns": self.oldest_ns,
            "since_ns": self.since_ns,
            "lost": lost,
            "replaced": replaced,
            "changed": changed,
            "expired": self.expired,
            "compacted": self.differences.gone,
            "not_compared": self.differences.uncompared,
            "unknown": [list(place) for place in self.unknown],
            "notes": self.notes,
            "seconds": round(self.seconds, 1),
        }


def digest(spark: SparkSession, wanted: Wanted, kept: Kept) -> tuple[Digested, Trees]:
    """Read what is new, and as much of what is known as is wanted; return what was found, and the trees to keep.

    The caller keeps the trees (`Kept.save`) once the findings are on record, or leaves what is kept as it is.

    Raises:
        UnreachableError: the cluster does not answer, or has no such topic.
        BadInputError: what is kept cannot be read.
    """
    began = time.monotonic()
    run = _Run(spark, wanted, kept)
    result, trees = run.done()
    result.seconds = time.monotonic() - began
    return result, trees


class _Run:
    """A run on one cluster."""

    def __init__(self, spark: SparkSession, wanted: Wanted, kept: Kept) -> None:
        self._wanted = wanted
        self._kept = kept
        self._reader = Reader(spark, wanted.cluster, wanted.config)
        self._cluster = Cluster(wanted.cluster, wanted.config)
        self._result = Digested(since_ns=kept.trees.at_ns if kept.trees is not None else None)
        self._before: dict[Place, Tree] = dict(kept.trees.trees) if kept.trees is not None else {}
        self._topics: dict[str, Topic] = {}
        self._spans: dict[Place, Span] = {}
        self._trees: dict[Place, Tree] = {}
        self._verified: dict[Place, int] = {}
        self._tails: dict[Place, tuple[int, Differences]] = {}
        """Of each partition whose last known leaf is what it was: its first offset, and what was compared."""
        self._cuts: dict[Place, int] = {}

    def done(self) -> tuple[Digested, Trees]:
        """Do every step; return the result and the trees of now."""
        at_ns = time.time_ns()
        self._ask()
        cut = self._cut()
        again = [*self._again({one.place for one in cut})]
        for place in {one.place for one in again if one.end > self._tails.get(one.place, (one.end,))[0]}:
            del self._tails[place]  # it is counted when it is read again
        for place, (_, found) in self._tails.items():
            self._count(place, found)
        self._verify(cut)
        self._verify(again)
        self._append()
        result = self._result
        result.findings = _joined(result.findings)
        result.read = self._reader.records
        result.partitions = len(self._trees)
        result.records = sum(tree.records for tree in self._trees.values())
        times = [tree.oldest_ns for tree in self._trees.values() if tree.oldest_ns is not None]
        result.oldest_ns = min(times, default=None)
        told = epochs(self._wanted.config, {topic for topic, _ in self._spans}) if self._spans else {}
        for place in self._spans:  # asked behind all that was read: no record can have a later one
            self._trees[place] = replace(self._trees[place], epoch=told.get(place))
        succeeded = self._kept.trees.succeeded_ns if self._kept.trees is not None else None
        return result, Trees(at_ns, succeeded if result.unknown else at_ns, self._trees)

    def _ask(self) -> None:
        """Ask which topics and offsets there are; take over the trees of what is still there."""
        chosen = Selection(self._wanted.topics)
        named = set(self._wanted.topics)
        names = [
            name
            for name in self._cluster.names()
            if chosen.topic(name) and (name in named or not name.startswith(_INTERNAL))
        ]
        topics = self._cluster.topics(names) if names else []
        if not topics and not self._before:
            raise UnreachableError(f"cluster {self._wanted.cluster} has no topic {' or '.join(self._wanted.topics)}")
        self._topics = {topic.name: topic for topic in topics}
        spans = self._cluster.spans(topics, [LEVEL]) if topics else []
        self._spans = {(span.topic, span.partition): span for span in spans}
        self._forget(chosen.topic)
        for topic in topics:
            for place in ((topic.name, number) for number in range(topic.partitions)):
                span, before = self._spans.get(place), self._before.get(place)
                if span is None:
                    self._result.unknown.append(place)
                    if before is not None:
                        self._trees[place] = before
                elif before is not None:
                    self._trees[place] = self._kept.retained(before, max(span.start, before.start))
                    self._result.expired += before.records - self._trees[place].records
                else:
                    self._trees[place] = Tree(*place[:1], topic.topic_id, place[1], span.start, span.start)

    def _forget(self, chosen: Callable[[str], bool]) -> None:
        """Forget what is kept of topics that are not ``chosen``, are gone, or were made anew."""
        for place, tree in list(self._before.items()):
            topic = self._topics.get(place[0])
            why = None
            if topic is None and not chosen(place[0]):
                del self._before[place]
            elif topic is None:
                why = f"topic {place[0]} is gone: what was known of it is forgotten"
            elif None not in {topic.topic_id, tree.topic_id} and topic.topic_id != tree.topic_id:
                why = f"topic {place[0]} was deleted and made anew: what was known of the one before is forgotten"
            if why is not None:
                del self._before[place]
                if why not in self._result.notes:
                    self._result.notes.append(why)

    def _known(self) -> Iterator[tuple[Place, Tree, Span]]:
        """Yield what is known of each partition that answers and has known records that have not expired."""
        for place, tree in self._before.items():
            span = self._spans.get(place)
            if span is not None and tree.chunks and span.start < tree.end:
                yield place, tree, span

    def _cut(self) -> list[Range]:
        """Return what is known of partitions whose end went back, or whose last known leaf is another one."""
        whole: dict[Place, Range] = {}
        tails: list[Range] = []
        for place, tree, span in self._known():
            known = Range(place, max(span.start, tree.start), tree.end)
            if self._wanted.everything or span.end < tree.end:
                whole[place] = known
            elif (last := self._kept.last_below(tree, tree.end)) is not None and last + 1 << BITS > span.start:
                tails.append(Range(place, max(last << BITS, span.start), tree.end))
        for pieces in self._reader.read(tails):
            for piece in pieces:
                place = piece.range.place
                tree, span = self._before[place], self._spans[place]
                found = self._differences(self._kept.leaves(tree, piece.range.start, tree.end), piece)
                if found:
                    whole[place] = Range(place, max(span.start, tree.start), tree.end)
                else:
                    self._tails[place] = piece.range.start, found
        return list(whole.values())

    def _again(self, whole: set[Place]) -> Iterator[Range]:
        """Yield old leaves, those that were not read for longest, until they have the share ``reread`` of all."""
        room = self._wanted.reread * sum(tree.records for tree in self._before.values())
        oldest = sorted(
            (chunk.read_at_ns, place, number)
            for place, tree, _ in self._known()
            if place not in whole
            for number, chunk in tree.chunks.items()
        )
        for _, place, number in oldest:
            if room <= 0:
                return
            tree, span = self._before[place], self._spans[place]
            leaves = self._kept.chunk(tree.chunks[number])
            blocks = leaves.leaf // BLOCK
            starts = np.flatnonzero(np.diff(blocks, prepend=-1))
            ages = np.minimum.reduceat(leaves.read_at, starts)
            chosen = []
            for start in starts[np.argsort(ages, kind="stable")].tolist():
                block = int(blocks[start]) * BLOCK << BITS
                low, high = max(block, span.start), min(block + (BLOCK << BITS), tree.end)
                if room > 0 and low < high:
                    chosen.append(Run(low, high - low))
                    room -= leaves.between(low, high).count
            yield from (Range(place, run.offset, run.end) for run in merged(sorted(chosen)))

    def _verify(self, ranges: Sequence[Range]) -> None:
        """Read ranges of what is known again, and compare; what differs is read once more before it is said."""
        for pieces in self._pieces(ranges):
            self._compare(pieces)

    def _pieces(self, ranges: Sequence[Range]) -> Iterator[list[Read]]:
        """Yield what the log has of ranges; of one that reaches beyond its end the last piece does, too."""
        ends = {one.place: self._spans[one.place].end for one in ranges}
        short = {one.place: one for one in ranges if one.end > ends[one.place]}
        if gone := [Read(one, Leaves.none()) for one in short.values() if one.start >= ends[one.place]]:
            yield gone
        for pieces in self._reader.read([one._replace(end=min(one.end, ends[one.place])) for one in ranges]):
            yield [
                piece._replace(range=short[piece.range.place]._replace(start=piece.range.start))
                if piece.range.place in short and piece.range.end == ends[piece.range.place]
                else piece
                for piece in pieces
            ]

    def _compare(self, pieces: Sequence[Read]) -> None:
        suspects: list[tuple[Read, Leaves, Differences]] = []
        for piece in pieces:
            place, start, end = piece.range
            before = self._kept.leaves(self._before[place], start, end)
            found = self._differences(before, piece)
            if found:
                suspects.append((piece, before, found))
            else:
                self._take(piece, found)
        if suspects:
            self._confirm(suspects)

    def _differences(self, before: Leaves, piece: Read) -> Differences:
        place = piece.range.place
        first = max(self._spans[place].start, self._before[place].start)  # another leader may have an older start
        return compare(
            before,
            piece.leaves,
            first,
            self._spans[place].end,
            compacted=self._compacted(place),
            cut=self._cuts.get(place),
        )

    def _confirm(self, suspects: Sequence[tuple[Read, Leaves, Differences]]) -> None:
        """Read leaves that differ once more, with the ends of the log asked anew."""
        topics = [self._topics[name] for name in sorted({piece.range.place[0] for piece, _, _ in suspects})]
        spans = {(span.topic, span.partition): span for span in self._cluster.spans(topics, [LEVEL])}
        ranges: dict[Place, Range] = {}
        for piece, _, found in suspects:
            place = piece.range.place
            if place not in spans:
                raise UnreachableError(f"{place[0]}-{place[1]} has no leader any more: what differs is not confirmed")
            now, span = spans[place], self._spans[place]
            self._spans[place] = replace(span, start=max(span.start, now.start), end=max(span.end, now.end))
            places = found.places()
            start = max(places[0].offset, piece.range.start, now.start)
            ranges[place] = Range(place, start, min(places[-1].end, piece.range.end, now.end))
        again = {place: Leaves.none() for place in ranges}
        for pieces in self._reader.read(list(ranges.values())):
            for piece in pieces:
                again[piece.range.place] = again[piece.range.place].joined(piece.leaves)
        known = {place: self._before[place] for place in ranges}
        self._cuts |= cuts(
            self._wanted.config,
            {place: (one.epoch, one.end) for place, one in known.items() if one.epoch is not None},
        )
        for piece, before, found in suspects:
            place, places = piece.range.place, found.places()
            leaves = piece.leaves.replaced(again[place], places[0].offset, places[-1].end)
            confirmed = piece._replace(leaves=leaves)
            self._take(confirmed, self._differences(before, confirmed))

    def _take(self, piece: Read, found: Differences) -> None:
        """Put a piece into the tree, and its differences into the result."""
        place, start, end = piece.range
        self._trees[place] = self._kept.replaced(self._trees[place], start, end, piece.leaves)
        self._count(place, found)
        tree = self._before[place]
        cut = self._cuts.get(place)
        self._result.findings += [
            Finding(*place[:1], tree.topic_id, place[1], kind, runs, cut)
            for kind in KINDS
            if (runs := getattr(found, kind))
        ]

    def _count(self, place: Place, found: Differences) -> None:
        seen = found.compared + found.uncompared
        self._verified[place] = self._verified.get(place, 0) + seen
        self._result.differences = self._result.differences.plus(replace(found, lost=(), changed=(), replaced=()))

    def _append(self) -> None:
        """Read what was appended; the trees then reach to the end of the log."""
        known = {place: tree.records for place, tree, _ in self._known()}
        self._result.taken_over = sum(
            max(self._trees[place].records - self._verified.get(place, 0), 0) for place in known
        )
        ends = {
            place: self._before[place].end if place in self._before else span.start
            for place, span in self._spans.items()
        }
        ranges = [Range(place, max(ends[place], span.start), span.end) for place, span in self._spans.items()]
        for pieces in self._reader.read(ranges):
            for piece in pieces:
                place = piece.range.place
                self._trees[place] = self._kept.joined(self._trees[place], piece.leaves)
        for place, span in self._spans.items():
            self._trees[place] = replace(self._trees[place], end=span.end)

    def _compacted(self, place: Place) -> bool:
        """Return whether compaction may remove records; also if the topic's settings may not be read."""
        return self._topics[place[0]].compacted is not False


def _joined(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with those of a partition as one, and lost offsets that follow each other as one run."""
    runs: dict[Finding, list[Run]] = {}
    for one in findings:
        runs.setdefault(replace(one, runs=()), []).extend(one.runs)
    return [
        replace(one, runs=tuple(sorted(some) if one.kind == "changed" else merged(sorted(some))))
        for one, some in sorted(runs.items(), key=lambda item: (item[0].topic, item[0].partition, item[0].kind))
    ]

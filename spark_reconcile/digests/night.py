"""A run of digests: decides what is read, compares it with what is kept, and says what was lost or changed.

A log is cut at its end only: an election that loses records loses the last ones, and whatever is written afterwards
makes other last ones. So a partition whose last known leaf is what it was has lost nothing by an election, and its
older leaves are taken over from the run before. What elections do not explain (a damaged file, a lost segment) is found
by reading old leaves again: the share ``reread`` of them in each run, those first that were not read for longest. A
partition whose end went back, or whose last known leaf is another one, is read whole. Where compaction works, the last
known leaf may not be there any more, and proves nothing: older ones are taken over, but it is said that it is unknown
whether the log was cut.

Nothing is said on one reading's word: leaves that differ are read again, with the log's ends asked anew before, and its
start afterwards, as retention may go on meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_reconcile.digests.asking import known_of, topics_of
from spark_reconcile.digests.epochs import cuts, epochs
from spark_reconcile.digests.keeping import Kept, Tree, Trees, by_chunk
from spark_reconcile.digests.reading import LEVEL, Place, Range, Read, Reader
from spark_reconcile.digests.rereading import oldest
from spark_reconcile.digests.result import KINDS, Digested, Finding, joined
from spark_reconcile.digests.tree import BITS, Differences, Leaves, compare
from spark_reconcile.dump.kafka_bounds import Cluster, Span, Topic
from spark_reconcile.errors import UnreachableError
from spark_reconcile.tables.columns import ISOLATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        self._absent: dict[Place, Tree] = {}
        self._reread: dict[Place, int] = {}
        """How many records of what is known were read again."""
        self._tails: dict[Place, tuple[Read, Differences]] = {}
        """The last known leaf of each partition where it differs in nothing."""
        self._unproven: set[Place] = set()
        """Partitions of which that leaf proves nothing."""
        self._cuts: dict[Place, int] = {}

    def done(self) -> tuple[Digested, Trees]:
        """Do every step; return the result and the trees of now."""
        at_ns = time.time_ns()
        self._ask(at_ns)
        cut = self._cut()
        whole = {one.place for one in cut}
        again = self._again(whole)
        for one in again:
            if one.place in self._tails and one.end > self._tails[one.place][0].range.start:
                del self._tails[one.place]  # it is counted when it is read again
        for piece, found in self._tails.values():
            (self._take if found.gone else self._count)(piece, found)
        self._verify(cut)
        self._verify(again)
        self._read_below(whole)
        self._append()
        self._end()
        result = self._result
        result.findings = joined(result.findings)
        result.read = self._reader.records
        result.partitions = len(self._trees)
        result.records = sum(tree.records for tree in self._trees.values())
        times = [tree.oldest_ns for tree in self._trees.values() if tree.oldest_ns is not None]
        result.oldest_ns = min(times, default=None)
        succeeded = self._kept.trees.succeeded_ns if self._kept.trees is not None else None
        return result, Trees(at_ns, succeeded if result.not_known else at_ns, self._trees | self._absent)

    def _ask(self, at_ns: int) -> None:
        """Ask which topics and offsets there are; take over the trees of what is still there."""
        result, wanted = self._result, self._wanted.topics
        topics, result.missing = topics_of(self._cluster, wanted, {topic for topic, _ in self._before})
        if not topics and not self._before:
            raise UnreachableError(f"cluster {self._wanted.cluster} has no topic {' or '.join(self._wanted.topics)}")
        self._topics = {topic.name: topic for topic in topics}
        spans = self._cluster.spans(topics, ISOLATIONS) if topics else []
        self._spans = {(span.topic, span.partition): span for span in spans if span.isolation == LEVEL}
        ends = {(span.topic, span.partition): span.end for span in spans if span.isolation != LEVEL}
        known = known_of(self._before, wanted, self._topics, at_ns)
        self._before, self._absent, result.notes = known.trees, known.absent, known.notes
        result.begun = sorted(self._topics.keys() - {topic for topic, _ in self._before})
        places = {(topic.name, number) for topic in topics for number in range(topic.partitions)}
        for place in sorted(places | self._before.keys()):
            span, before = self._spans.get(place), self._before.get(place)
            if span is None:
                result.unknown.append(place)
                if before is not None:
                    self._trees[place] = before
                continue
            if before is not None:
                self._trees[place] = before
                self._expire(place, span.start)
                if span.end == before.end < ends.get(place, 0):
                    result.held.append(place)
            if before is None or not self._trees[place].chunks:  # a log without a known record may be cut unnoticed
                self._before.pop(place, None)
                topic_id, compacted = self._topics[place[0]].topic_id, before.compacted if before is not None else 0
                self._trees[place] = Tree(*place[:1], topic_id, place[1], span.start, span.start, compacted=compacted)

    def _expire(self, place: Place, start: int) -> None:
        """Take what is below the log's start out of a partition's tree."""
        tree = self._trees[place]
        self._trees[place] = self._kept.retained(tree, start)
        self._result.expired += tree.records - self._trees[place].records

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
            known = Range(place, self._first(place), tree.end)
            if self._wanted.everything or span.end < tree.end:
                whole[place] = known
            elif (last := self._kept.last_below(tree, tree.end)) is not None and last + 1 << BITS > known.start:
                tails.append(known._replace(start=max(last << BITS, known.start)))
        for pieces in self._reader.read(tails):
            for piece in pieces:
                place = piece.range.place
                tree = self._before[place]
                found = self._differences(self._kept.leaves(tree, piece.range.start, tree.end), piece)
                if found:
                    whole[place] = Range(place, self._first(place), tree.end)
                    continue
                self._tails[place] = piece, found
                if self._compacted(place) > piece.range.start and not found.compared:
                    self._unproven.add(place)
        return list(whole.values())

    def _again(self, whole: set[Place]) -> list[Range]:
        """Return old leaves that have the share ``reread`` of all known records, and are not read anyway."""
        room = self._wanted.reread * sum(tree.records for tree in self._before.values())
        known = ((tree, self._first(place)) for place, tree, _ in self._known() if place not in whole)
        return oldest(self._kept, known, room)

    def _verify(self, ranges: Sequence[Range]) -> None:
        """Read ranges of what is known again, and compare; what differs is read once more before it is said."""
        for pieces in self._pieces(ranges):
            self._compare(pieces)

    def _pieces(self, ranges: Sequence[Range]) -> Iterator[list[Read]]:
        """Yield what the log has of ranges; what is beyond its end comes first, by chunk, and is empty.

        The leaf that the end lies in is not parted.
        """
        ends = {one.place: self._spans[one.place].end for one in ranges}
        within = []
        for place, start, end in ranges:
            edge = max(start, -(-ends[place] >> BITS) << BITS) if start < ends[place] else start
            yield from ([Read(Range(place, *part), Leaves.none())] for part in by_chunk(edge, end))
            within.append(Range(place, start, min(edge, end)))
        known = {one.place: one.end for one in within}
        for pieces in self._reader.read([one._replace(end=min(one.end, ends[one.place])) for one in within]):
            yield [
                piece._replace(range=piece.range._replace(end=max(piece.range.end, known[piece.range.place])))
                if piece.range.end == ends[piece.range.place]
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
        return compare(before, piece.leaves, self._first(place), self._compacted(place), self._cuts.get(place))

    def _first(self, place: Place) -> int:
        """Return the first offset that is known and still there: another leader may have an older start."""
        return max(self._spans[place].start, self._before[place].start)

    def _compacted(self, place: Place) -> int:
        """Return below which offset compaction may have removed records: up to the end if the settings are unknown.

        Also if the topic is not compacted any more: what each replica removed then stays so.
        """
        end = self._spans[place].end
        return min(self._before[place].compacted, end) if self._topics[place[0]].compacted is False else end

    def _confirm(self, suspects: Sequence[tuple[Read, Leaves, Differences]]) -> None:
        """Read leaves that differ once more, with the ends of the log asked anew."""
        topics = [self._topics[name] for name in sorted({piece.range.place[0] for piece, _, _ in suspects})]
        spans = {(span.topic, span.partition): span for span in self._cluster.spans(topics, [LEVEL])}
        ranges: dict[Place, Range] = {}
        for piece, _, found in suspects:
            place = piece.range.place
            if place not in spans:
                raise _leaderless(place)
            now, span = spans[place], self._spans[place]
            self._spans[place] = replace(span, end=max(span.end, now.end))
            places = found.places()
            start = max(places[0].offset, piece.range.start, now.start)
            ranges[place] = Range(place, start, min(places[-1].end, piece.range.end, now.end))
        again = {place: Leaves.none() for place in ranges}
        for pieces in self._reader.read(list(ranges.values())):
            for piece in pieces:
                again[piece.range.place] = again[piece.range.place].joined(piece.leaves)
        self._cluster.unchanged(topics, "digested")
        starts = self._cluster.starts(topics)  # after the reading: retention goes on meanwhile
        known = {place: (tree.epoch, tree.end) for place in ranges if (tree := self._before[place]).epoch is not None}
        self._cuts |= cuts(self._wanted.config, known)
        for piece, before, found in suspects:
            place, places = piece.range.place, found.places()
            if place not in starts:
                raise _leaderless(place)
            self._spans[place] = replace(self._spans[place], start=max(self._spans[place].start, starts[place]))
            leaves = piece.leaves.replaced(again[place], places[0].offset, places[-1].end)
            confirmed = piece._replace(leaves=leaves)
            differences = self._differences(before, confirmed)
            self._say(place, before, differences)
            self._take(confirmed, differences)

    def _say(self, place: Place, before: Leaves, found: Differences) -> None:
        """Put what was lost or changed into the result."""
        for kind in KINDS:
            if runs := getattr(found, kind):
                read_at = before.between(runs[0].offset, runs[-1].end).read_at
                there_ns = int(read_at.min()) if len(read_at) else self._result.since_ns or 0
                topic_id = self._before[place].topic_id
                cut = self._cuts.get(place)
                self._result.findings.append(Finding(*place[:1], topic_id, place[1], kind, runs, there_ns, cut))

    def _take(self, piece: Read, found: Differences) -> None:
        """Put a piece into the tree, and what was compared into the result."""
        place, start, end = piece.range
        self._trees[place] = self._kept.replaced(self._trees[place], start, end, piece.leaves)
        self._count(piece, found)

    def _count(self, piece: Read, found: Differences) -> None:
        place = piece.range.place
        self._reread[place] = self._reread.get(place, 0) + piece.leaves.count
        self._result.differences = self._result.differences.plus(replace(found, lost=(), changed=(), replaced=()))
        if found.gone and self._topics[place[0]].compacted is None and place not in self._result.unjudged:
            self._result.unjudged.append(place)

    def _read_below(self, places: Collection[Place]) -> None:
        """Read what the log has below the known start, if it was cut: it may have begun anew, or as another replica's.

        The leaf that this start lies in was compared as far as it was known.
        """
        ranges = []
        for place in places:
            span, tree = self._spans[place], self._trees[place]
            if span.start < tree.start:
                behind = -(-tree.start >> BITS) << BITS
                ranges.append(Range(place, span.start, min(behind, tree.end, span.end)))  # beyond: `_append`
                self._trees[place] = replace(tree, start=span.start)
        for pieces in self._reader.read(ranges):
            for piece in pieces:
                place, start, end = piece.range
                self._trees[place] = self._kept.replaced(self._trees[place], start, end, piece.leaves)

    def _append(self) -> None:
        """Read what was appended."""
        for place, _, _ in self._known():
            left = max(self._trees[place].records - self._reread.get(place, 0), 0)
            if place in self._unproven:
                self._result.unproven += left
            else:
                self._result.taken_over += left
        ends = {place: self._trees[place].end for place in self._spans}
        ranges = [Range(place, max(ends[place], span.start), span.end) for place, span in self._spans.items()]
        for pieces in self._reader.read(ranges):
            for piece in pieces:
                place = piece.range.place
                self._trees[place] = self._kept.joined(self._trees[place], piece.leaves)

    def _end(self) -> None:
        """Have the trees reach from the log's start, which may have moved meanwhile, to the end that was read."""
        starts = self._cluster.starts(list(self._topics.values())) if self._spans else {}
        told = epochs(self._wanted.config, self._topics) if self._spans else {}  # none of what was read is later
        for place, span in self._spans.items():
            self._expire(place, max(span.start, starts.get(place, 0)))
            tree = self._trees[place]
            compacted = span.end if self._topics[place[0]].compacted else tree.compacted
            self._trees[place] = replace(tree, end=span.end, compacted=compacted, epoch=told.get(place))


def _leaderless(place: Place) -> UnreachableError:
    return UnreachableError(f"{place[0]}-{place[1]} has no leader any more: what differs is not confirmed")

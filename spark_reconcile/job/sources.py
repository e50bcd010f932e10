"""Where a range's rows come from: the row groups that hold them, or Spark's shuffle. The work on them is the same."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from spark_reconcile.job import tasks
from spark_reconcile.job.ranges import Chunk, Groups, Range, narrowed
from spark_reconcile.job.tasks import Edges, FirstLook, Key, Known
from spark_reconcile.match.kernel import RangeRows, Runs, Unsettled
from spark_reconcile.match.merging import Bracket, neighbours, second_look
from spark_reconcile.tables.columns import I64, Identities

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Work: TypeAlias = Callable[[Key, RangeRows, Known, Any], Any]
    """Work on a range's rows, with what was asked of that range."""

WIDTH: Final = 1 << 19
"""Offsets of a range after a shuffle."""


class Again(NamedTuple):
    """Asks a range for runs of identities, other than those it has ``reported``."""

    runs: Runs
    reported: Identities


class Source(ABC):
    """Ranges, and work on them in Spark.

    Every method raises BadInputError for a damaged file or value, LayoutError for rows that contradict their footer.
    """

    def __init__(self, spark: SparkSession, known: Known) -> None:
        self._context = spark.sparkContext
        self._known = self._context.broadcast(known)

    def first_looks(self) -> list[FirstLook]:
        """Settle every range."""
        return self._each(None, lambda key, rows, known, _: tasks.first_look(key, rows, known))

    def second_looks(self, asked: Mapping[Key, Again]) -> list[tuple[Key, Unsettled]]:
        """Look again at some ranges."""
        return self._each(
            asked, lambda key, rows, known, again: (key, second_look(rows, known.partition(key[0]), *again))
        )

    def brackets(self, keys: Sequence[Key], who: Identities) -> list[Bracket]:
        """Look up the neighbours of some identities in some ranges."""
        return self._each(dict.fromkeys(keys), lambda _key, rows, _known, _: neighbours(rows.probes, who))

    def edges(self, keys: Sequence[Key], within: tuple[I64, I64], most: int) -> list[tuple[Key, Edges]]:
        """Look up the order of transactions in some ranges."""
        return self._each(dict.fromkeys(keys), lambda key, rows, known, _: tasks.edges(key, rows, known, within, most))

    @abstractmethod
    def _each(self, asked: Mapping[Key, Any] | None, work: Work) -> list[Any]:
        """Return what ``work`` returns for each range that is ``asked``; None: for every range."""


class Direct(Source):
    """Ranges read from the row groups that hold them."""

    def __init__(self, spark: SparkSession, ranges: Sequence[Range], known: Known, groups: Groups) -> None:
        super().__init__(spark, known)
        self._groups = groups
        self._ranges = {(part.place, part.number): part for part in ranges}

    def _each(self, asked: Mapping[Key, Any] | None, work: Work) -> list[Any]:
        known = self._known
        keys = self._ranges if asked is None else asked
        parts = [self._part(key, None if asked is None else asked[key]) for key in keys]

        def loaded(task: tuple[Range, Any]) -> Any:
            part, question = task
            rows = tasks.gathered(tasks.read(part), part.place, known.value)
            return work((part.place, part.number), rows, known.value, question)

        if not parts:
            return []
        results = self._context.parallelize(parts, len(parts)).map(tasks.guarded(loaded)).collect()
        return [tasks.accepted(result) for result in results]

    def _part(self, key: Key, question: Any) -> tuple[Range, Any]:
        part = self._ranges[key]
        if isinstance(question, Again):
            part = narrowed(part, (question.runs.sequence, question.runs.last), self._groups)
        return part, question


class Shuffled(Source):
    """Ranges brought together from chunks of any layout."""

    def __init__(self, spark: SparkSession, pieces: Sequence[Chunk], known: Known) -> None:
        super().__init__(spark, known)
        parts = max(1, min(len(pieces) * 2, 4096))
        width = WIDTH

        def spread(chunk: Chunk) -> list[tuple[Key | None, Any]]:
            result: Any = tasks.guarded(partial(tasks.spread, width=width))(chunk)
            return [(None, result)] if isinstance(result, Exception) else result

        self._empty = not pieces
        chunks = self._context.parallelize(list(pieces), max(1, len(pieces)))
        self._pairs = chunks.flatMap(spread).partitionBy(parts, _hashed)

    def _each(self, asked: Mapping[Key, Any] | None, work: Work) -> list[Any]:
        if self._empty:
            return []
        known = self._known
        questions = self._context.broadcast(None if asked is None else dict(asked))

        def once(task: tuple[Key, list[tuple[str, bytes]]]) -> Any:
            question = questions.value[task[0]] if questions.value is not None else None
            rows = tasks.gathered(tasks.shuffled(task[1]), task[0][0], known.value)
            return work(task[0], rows, known.value, question)

        def loaded(pairs: Iterator[tuple[Key | None, Any]]) -> Iterator[Any]:
            blobs: dict[Key, list[tuple[str, bytes]]] = defaultdict(list)
            for key, value in pairs:
                if key is None:
                    yield value
                elif questions.value is None or key in questions.value:
                    blobs[key].append(value)
            for key in list(blobs):
                yield tasks.guarded(once)((key, blobs.pop(key)))

        return [tasks.accepted(result) for result in self._pairs.mapPartitions(loaded).collect()]


def _hashed(key: Key | None) -> int:
    """Return the same number for a key in every process (Python's own hash of text is salted)."""
    return zlib.crc32(repr(key).encode())

"""Where a range's rows come from: its row groups, or Spark's shuffle. The same work either way."""

from __future__ import annotations

import zlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, Protocol

from spark_reconcile import tasks
from spark_reconcile.merging import Bracket, neighbours
from spark_reconcile.ranges import narrowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_reconcile.columns import I64, Identities
    from spark_reconcile.kernel import Piece, Residue, Runs
    from spark_reconcile.ranges import Chunk, Groups, Range
    from spark_reconcile.tasks import Edges, FirstLook, Key, Known, Refused

WIDTH: Final = 1 << 19
"""Offsets of a range where the layout is any."""


class Source(Protocol):
    """Ranges, and work on them in Spark."""

    def first_looks(self) -> Iterable[FirstLook | Refused]:
        """Settle every range."""

    def second_looks(
        self, runs: Mapping[Key, Runs], said: Mapping[Key, Identities]
    ) -> Iterable[tuple[Key, Residue] | Refused]:
        """Look again at some ranges for some identities, other than those told already."""

    def brackets(self, keys: Sequence[Key], who: Identities) -> Iterable[Bracket | Refused]:
        """Look up neighbours in some ranges."""

    def edges(self, keys: Sequence[Key], within: tuple[I64, I64], most: int) -> Iterable[tuple[Key, Edges] | Refused]:
        """Look up the order of transactions in some ranges."""


class Direct:
    """Ranges read from the row groups that hold them."""

    def __init__(self, spark: SparkSession, ranges: Sequence[Range], known: Known, groups: Groups) -> None:
        self._context = spark.sparkContext
        self._groups = groups
        self._ranges = {(part.place, part.number): part for part in ranges}
        self._known = self._context.broadcast(known)

    def first_looks(self) -> Iterable[FirstLook | Refused]:
        """Settle every range."""
        known = self._known

        def work(part: Range) -> FirstLook:
            return tasks.first_look((part.place, part.number), tasks.load_range(part, known.value), known.value)

        return self._each(list(self._ranges.values()), work)

    def second_looks(
        self, runs: Mapping[Key, Runs], said: Mapping[Key, Identities]
    ) -> Iterable[tuple[Key, Residue] | Refused]:
        """Look again."""
        known = self._known

        def work(task: tuple[Range, Runs, Identities]) -> tuple[Key, Residue]:
            part, ask, told = task
            piece = tasks.load_range(part, known.value)
            return tasks.second_look((part.place, part.number), piece, known.value, ask, told)

        parts = [
            (narrowed(self._ranges[key], (ask.sequence, ask.last), self._groups), ask, said[key])
            for key, ask in runs.items()
        ]
        return self._each(parts, work)

    def brackets(self, keys: Sequence[Key], who: Identities) -> Iterable[Bracket | Refused]:
        """Look up neighbours."""
        known = self._known

        def work(part: Range) -> Bracket:
            return neighbours(tasks.load_range(part, known.value).probes, who)

        return self._each([self._ranges[key] for key in keys], work)

    def edges(self, keys: Sequence[Key], within: tuple[I64, I64], most: int) -> Iterable[tuple[Key, Edges] | Refused]:
        """Look up the order."""
        known = self._known

        def work(part: Range) -> tuple[Key, Edges]:
            piece = tasks.load_range(part, known.value)
            return tasks.edges((part.place, part.number), piece, known.value, within, most)

        return self._each([self._ranges[key] for key in keys], work)

    def _each(self, work_list: list[Any], work: Callable[[Any], Any]) -> Iterable[Any]:
        if not work_list:
            return []
        results: list[Any] = self._context.parallelize(work_list, len(work_list)).map(tasks.told(work)).collect()
        return results


class Shuffled:
    """Ranges brought together from chunks of any layout."""

    def __init__(self, spark: SparkSession, pieces: Sequence[Chunk], known: Known) -> None:
        context = spark.sparkContext
        self._known = context.broadcast(known)
        parts = max(1, min(len(pieces) * 2, 4096))

        def spread(chunk: Chunk) -> Iterator[tuple[Key | None, Any]]:
            result: Any = tasks.told(_spread)(chunk)
            if isinstance(result, tasks.Refused):
                yield None, result
            else:
                yield from result

        self._empty = not pieces
        self._pairs = context.parallelize(list(pieces), max(1, len(pieces))).flatMap(spread).partitionBy(parts, _hashed)

    def first_looks(self) -> Iterable[FirstLook | Refused]:
        """Settle every range."""
        known = self._known
        return self._each(None, lambda key, piece: tasks.first_look(key, piece, known.value))

    def second_looks(
        self, runs: Mapping[Key, Runs], said: Mapping[Key, Identities]
    ) -> Iterable[tuple[Key, Residue] | Refused]:
        """Look again."""
        known, context = self._known, self._pairs.context
        asked = context.broadcast((dict(runs), dict(said)))

        def work(key: Key, piece: Piece) -> tuple[Key, Residue]:
            ask, told = asked.value
            return tasks.second_look(key, piece, known.value, ask[key], told[key])

        return self._each(frozenset(runs), work)

    def brackets(self, keys: Sequence[Key], who: Identities) -> Iterable[Bracket | Refused]:
        """Look up neighbours."""
        return self._each(frozenset(keys), lambda _, piece: neighbours(piece.probes, who))

    def edges(self, keys: Sequence[Key], within: tuple[I64, I64], most: int) -> Iterable[tuple[Key, Edges] | Refused]:
        """Look up the order."""
        known = self._known
        return self._each(frozenset(keys), lambda key, piece: tasks.edges(key, piece, known.value, within, most))

    def _each(self, chosen: frozenset[Key] | None, work: Callable[[Key, Piece], Any]) -> Iterable[Any]:
        known = self._known

        def once(task: tuple[Key, list[tuple[str, bytes]]]) -> Any:
            return work(task[0], tasks.load_blobs(*task, known.value))

        def loaded(pairs: Iterator[tuple[Key | None, Any]]) -> Iterator[Any]:
            blobs: dict[Key, list[tuple[str, bytes]]] = defaultdict(list)
            for key, value in pairs:
                if key is None:
                    yield value
                elif chosen is None or key in chosen:
                    blobs[key].append(value)
            for key in list(blobs):
                yield tasks.told(once)((key, blobs.pop(key)))

        return [] if self._empty else self._pairs.mapPartitions(loaded).collect()


def _spread(chunk: Chunk) -> list[tuple[Key, tuple[str, bytes]]]:
    return list(tasks.spread(chunk, WIDTH))


def _hashed(key: Key | None) -> int:
    """Return the same number for a key in every process (Python's own hash of text is salted)."""
    return zlib.crc32(repr(key).encode())

"""Where a range's rows come from: the row groups that hold them, or files written first. The work is the same.

Rows of any layout are written once more, by partition and range, as Arrow streams in the work folder (`Spread`). That
takes half the CPU of Spark's shuffle, for which every byte goes to the JVM and back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from spark_reconcile.job import tasks
from spark_reconcile.job.ranges import Chunk, Groups, Range, narrowed
from spark_reconcile.job.tasks import Edges, FirstLook, Key, Known, Piece, Stored
from spark_reconcile.match.kernel import RangeRows, Runs, Unsettled
from spark_reconcile.match.merging import Bracket, neighbours, second_look
from spark_reconcile.tables.columns import I64, Identities

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Work: TypeAlias = Callable[[Key, RangeRows, Known, Any], Any]
    """Work on a range's rows, with what was asked of that range."""

WIDTH: Final = 1 << 20
"""Offsets of a range that is written."""


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
        return self._each("settle", None, lambda key, rows, known, _: tasks.first_look(key, rows, known))

    def second_looks(self, asked: Mapping[Key, Again]) -> list[tuple[Key, Unsettled]]:
        """Look again at some ranges."""
        return self._each(
            "look again at",
            asked,
            lambda key, rows, known, again: (key, second_look(rows, known.partition(key[0]), *again)),
        )

    def brackets(self, keys: Sequence[Key], who: Identities) -> list[Bracket]:
        """Look up the neighbours of some identities in some ranges."""
        what = f"find the neighbours of {len(who):,} probes in"
        return self._each(what, dict.fromkeys(keys), lambda _key, rows, _known, _: neighbours(rows.probes, who))

    def edges(self, keys: Sequence[Key], within: tuple[I64, I64], most: int) -> list[tuple[Key, Edges]]:
        """Look up the order of transactions in some ranges."""
        return self._each(
            "order the transactions of",
            dict.fromkeys(keys),
            lambda key, rows, known, _: tasks.edges(key, rows, known, within, most),
        )

    def _each(self, what: str, asked: Mapping[Key, Any] | None, work: Work) -> list[Any]:
        """Return what ``work`` returns for each range that is ``asked``; None: for every range.

        ``what`` is the verb of the job's description.
        """
        known, pieces = self._known, self._pieces

        def done(task: tuple[Key, Any, Any]) -> Any:
            key, where, question = task
            rows = tasks.gathered(pieces(where, known.value), key[0], known.value)
            return work(key, rows, known.value, question)

        questions = dict.fromkeys(self._keys()) if asked is None else asked
        parts = [(key, self._where(key, question), question) for key, question in questions.items()]
        return tasks.in_parallel(self._context, f"{what} {len(parts):,} ranges", parts, done, most=len(parts))

    @abstractmethod
    def _keys(self) -> Iterable[Key]:
        """Return every range."""

    @abstractmethod
    def _where(self, key: Key, question: Any) -> Any:
        """Return where the rows of a range are that can tell something to a question."""

    @staticmethod
    @abstractmethod
    def _pieces(where: Any, known: Known) -> Iterator[Piece]:
        """Read rows."""


class Direct(Source):
    """Ranges read from the row groups that hold them."""

    def __init__(self, spark: SparkSession, ranges: Sequence[Range], known: Known, groups: Groups) -> None:
        super().__init__(spark, known)
        self._groups = groups
        self._ranges = {(part.place, part.number): part for part in ranges}

    def _keys(self) -> Iterable[Key]:
        return self._ranges

    def _where(self, key: Key, question: Any) -> Range:
        part = self._ranges[key]
        if isinstance(question, Again):
            part = narrowed(part, (question.runs.sequence, question.runs.last), self._groups)
        return part

    @staticmethod
    def _pieces(where: Range, _known: Known) -> Iterator[Piece]:
        return tasks.read(where)


class Spread(Source):
    """Ranges brought together from chunks of any layout, in files of the work folder."""

    def __init__(self, spark: SparkSession, pieces: Sequence[Chunk], known: Known) -> None:
        super().__init__(spark, known)
        self._parts: dict[Key, list[Stored]] = defaultdict(list)
        for found in tasks.in_parallel(
            self._context, "write the rows by partition", pieces, partial(tasks.spread, width=WIDTH, work=known.work)
        ):
            for key, part in found:
                self._parts[key].append(part)

    def _keys(self) -> Iterable[Key]:
        return self._parts

    def _where(self, key: Key, _question: Any) -> list[Stored]:
        return self._parts[key]

    @staticmethod
    def _pieces(where: Sequence[Stored], known: Known) -> Iterator[Piece]:
        return tasks.stored(where, known.work)

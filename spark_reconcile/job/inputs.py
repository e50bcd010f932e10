"""What a reconciliation is given, looked at before anything is computed, and what every task must know of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_reconcile import tasks
from spark_reconcile.bounding import Dumped, Place, read_bounds
from spark_reconcile.output import Folder
from spark_reconcile.tables import inspect
from spark_reconcile.tasks import Known, Named, Refused, widen
from spark_reconcile.transactions import Transactions, read_transactions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from spark_reconcile.ranges import Groups, Outlines
    from spark_reconcile.tables import File, RowGroup

Sequences: TypeAlias = dict[Place, dict[tuple[int, int], tuple[int, int]]]
"""First and last sequence by (producer_id, generation), by partition."""


Issued: TypeAlias = Mapping[int, int]
"""The highest generation ever begun, by producer id."""


class LayoutUntrueError(Exception):
    """Footers lied: start again without believing them."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Two folders, looked at: files by table, and what fits into the driver."""

    files: dict[str, list[File]]
    dumped: Dumped
    transactions: Transactions

    def groups(self) -> Groups:
        """Return what footers say, by path and number of a row group."""
        return {
            (file.path, group.number): group for files in self.files.values() for file in files for group in file.groups
        }

    def only(self, cluster: str) -> Inputs:
        """Return the same without files that, by their footers, have nothing of a cluster."""
        return replace(
            self,
            files={table: [file for file in files if file.may_have(cluster)] for table, files in self.files.items()},
        )


def look(probe_log: str, dump: str, out: str | None = None, *, cluster: str | None = None) -> Inputs:
    """Look at both folders before Spark starts; an earlier summary in ``out`` is taken away first.

    With ``cluster`` files of the probe log that by their names or footers have nothing of it are left out: by their
    names they are not even opened, for who leads another cluster may merge its files at this moment.

    Raises:
        BadInputError: something is missing or not to the contract.
    """
    if out is not None:
        Folder(out).forget()
    files = {table: inspect(probe_log, table, cluster) for table in ("probes", "transactions", "polls")}
    files |= {table: inspect(dump, table) for table in ("records", "bounds")}
    inputs = Inputs(files, read_bounds(files["bounds"]), read_transactions(files["transactions"]))
    return inputs if cluster is None else inputs.only(cluster)


def known_to_tasks(spark: SparkSession, inputs: Inputs, work: str, issued: Issued) -> Known:
    """Find out which sequences the log holds: from footers where they tell, else by reading a few columns.

    Raises:
        BadInputError: a file is damaged.
    """
    sequences: Sequences = defaultdict(dict)
    named: Named = defaultdict(set)
    unclear: dict[str, tuple[File, list[int]]] = {}
    for file in inputs.files["probes"]:
        for group in file.groups:
            if group.rows and not _told_by_footer(file, group, sequences, named):
                unclear.setdefault(file.path, (file, []))[1].append(group.number)
    parts = [(file.bare(), tuple(groups)) for file, groups in unclear.values()]
    if parts:
        rdd = spark.sparkContext.parallelize(parts, min(len(parts), 256)).map(tasks.told(tasks.extents))
        _gather(rdd.toLocalIterator(), sequences, named)
    generations: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for place, extents in sequences.items():
        for producer, generation in extents:
            generations[place.cluster][producer].add(generation)
    for cluster in {place.cluster for place in (*sequences, *inputs.dumped.bounds)}:
        producers = generations[cluster]
        for producer, known in producers.items():
            known.update(range(max(known) + 1, issued.get(producer, 0) + 1))
        for producer, last in issued.items():  # the log holds nothing of that start, any more or yet
            producers.setdefault(producer, {last + 1})
    return Known(
        dumped=inputs.dumped,
        named=dict(named),
        transactions=inputs.transactions,
        sequences=dict(sequences),
        generations={
            cluster: {producer: tuple(sorted(numbers)) for producer, numbers in producers.items()}
            for cluster, producers in generations.items()
        },
        work=work,
    )


def outlined(spark: SparkSession, parts: list[tuple[File, tuple[int, ...]]]) -> Outlines:
    """Look into row groups that hold several partitions.

    Raises:
        BadInputError: a file is damaged.
    """
    result: dict[tuple[str, int], list[tuple[Place, RowGroup]]] = defaultdict(list)
    if parts:
        rdd = spark.sparkContext.parallelize(parts, min(len(parts), 256)).map(tasks.told(tasks.outline))
        for found in rdd.toLocalIterator():
            for path, number, place, group in believed(found):
                result[path, number].append((place, group))
    return dict(result)


def _told_by_footer(file: File, group: RowGroup, sequences: Sequences, named: Named) -> bool:
    values = [file.given.get(name, group.only(name)) for name in tasks.KEYS[:5]]
    first, last = group.low.get("sequence"), group.high.get("sequence")
    if any(value is None for value in values) or first is None or last is None:
        return False
    place = Place(str(values[0]), str(values[1]), int(values[2]))
    topic_id = file.given.get("topic_id", group.only("topic_id"))
    if topic_id is not None:
        named[place[:2]].add(topic_id)
    elif "topic_id" in file.columns and group.nulls.get("topic_id") != group.rows:
        return False
    widen(sequences[place], (int(values[3]), int(values[4])), first, last)
    return True


def _gather(results: Iterable[Any], sequences: Sequences, named: Named) -> None:
    for found in results:
        found_sequences, found_named = believed(found)
        for topic, ids in found_named.items():
            named[topic] |= ids
        for place, extents in found_sequences.items():
            for who, (first, last) in extents.items():
                widen(sequences[place], who, first, last)


def believed(result: Any) -> Any:
    """Return a task's result, or raise what it was refused for."""
    if isinstance(result, Refused):
        if result.error is None:
            raise LayoutUntrueError
        raise result.error
    return result

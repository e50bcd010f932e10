"""Inspects the input of a reconciliation before anything is computed, and derives what every task must know of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from spark_reconcile.job import tasks
from spark_reconcile.job.ranges import Groups, Outlines, Part, parts, place_of
from spark_reconcile.job.tasks import Known, Named, widen
from spark_reconcile.tables.bounds import Dumped, Place, dumped_of
from spark_reconcile.tables.parquet import batches, read
from spark_reconcile.tables.rows import transactions_of
from spark_reconcile.tables.schema import File, RowGroup, inspect
from spark_reconcile.tables.transactions import Transactions
from spark_reconcile.tables.writing import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Sequences: TypeAlias = dict[Place, dict[tuple[int, int], tuple[int, int]]]
"""First and last sequence by (producer_id, generation), by partition."""


Issued: TypeAlias = Mapping[int, int]
"""The highest generation ever begun, by producer id."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inspected input: files by table, bounds and transactions."""

    files: dict[str, list[File]]
    dumped: Dumped
    transactions: Transactions

    def groups(self) -> Groups:
        """Return the footers' statistics, by path and number of a row group."""
        return {
            (file.path, group.number): group for files in self.files.values() for file in files for group in file.groups
        }


def look(probe_log: str, dump: str, out: str | None = None, *, cluster: str | None = None) -> Inputs:
    """Inspect both folders before Spark starts; an earlier summary in ``out`` is deleted first.

    With ``cluster``, files of the probe log that have no row of it are left out. Those that another cluster's name
    excludes are not even opened: the scheduler that leads that cluster may be merging them.

    Raises:
        BadInputError: a table is missing or departs from the contract.
    """
    if out is not None:
        Folder(out).forget()
    files = {table: inspect(probe_log, table, cluster) for table in ("probes", "transactions", "polls")}
    files |= {table: inspect(dump, table) for table in ("records", "bounds")}
    dumped = dumped_of([(file.path, read(file)) for file in files["bounds"]])
    transactions = transactions_of((file.path, table) for file in files["transactions"] for table in batches(file))
    if cluster is not None:
        files = {table: [file for file in some if file.may_have(cluster)] for table, some in files.items()}
    return Inputs(files, dumped, transactions)


def known_to_tasks(spark: SparkSession, inputs: Inputs, work: str, issued: Issued) -> Known:
    """Return what every task must know.

    Raises:
        BadInputError: a file is damaged.
    """
    sequences, named = _extents(spark, inputs.files["probes"])
    generations: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for place, extents in sequences.items():
        for producer, generation in extents:
            generations[place.cluster][producer].add(generation)
    for cluster in {place.cluster for place in (*sequences, *inputs.dumped.bounds)}:
        producers = generations[cluster]
        for producer, known in producers.items():
            known.update(range(max(known) + 1, issued.get(producer, 0) + 1))
        for producer, last in issued.items():  # the log has no row of that start, any more or yet
            producers.setdefault(producer, {last + 1})
    return Known(
        dumped=inputs.dumped,
        named=named,
        transactions=inputs.transactions,
        sequences=sequences,
        generations={
            cluster: {producer: tuple(sorted(numbers)) for producer, numbers in producers.items()}
            for cluster, producers in generations.items()
        },
        work=work,
    )


def _extents(spark: SparkSession, files: Sequence[File]) -> tuple[Sequences, Named]:
    """Return the sequences and topic ids in the log: from footers if these suffice, else from a few columns."""
    sequences: Sequences = defaultdict(dict)
    named: Named = defaultdict(set)
    unclear = [
        (file, group)
        for file in files
        for group in file.groups
        if group.rows and not _widened_by_footer(file, group, sequences, named)
    ]
    for found, ids in tasks.in_parallel(
        spark.sparkContext, "find the sequences of the probe log", parts(unclear), tasks.extents
    ):
        for topic, some in ids.items():
            named[topic] |= some
        for place, extents in found.items():
            for who, (first, last) in extents.items():
                widen(sequences[place], who, first, last)
    return dict(sequences), dict(named)


def outlined(spark: SparkSession, mixed: Sequence[Part]) -> Outlines:
    """Read the extents of each partition in row groups that hold several.

    Raises:
        BadInputError: a file is damaged.
    """
    result: dict[tuple[str, int], list[tuple[Place, RowGroup]]] = defaultdict(list)
    for found in tasks.in_parallel(
        spark.sparkContext, "outline row groups of several partitions", mixed, tasks.outline
    ):
        for path, number, place, group in found:
            result[path, number].append((place, group))
    return dict(result)


def _widened_by_footer(file: File, group: RowGroup, sequences: Sequences, named: Named) -> bool:
    place = place_of(file, group)
    producer, generation, topic_id = (file.only(group, name) for name in ("producer_id", "generation", "topic_id"))
    first, last = group.low.get("sequence"), group.high.get("sequence")
    if place is None or producer is None or generation is None or first is None or last is None:
        return False
    if topic_id is not None:
        named[place[:2]].add(topic_id)
    elif "topic_id" in file.columns and group.nulls.get("topic_id") != group.rows:
        return False
    widen(sequences[place], (int(producer), int(generation)), first, last)
    return True

"""The five tables of CONTRACTS "Probe log and dump": their columns, and whether a folder has them.

`inspect` opens the footer of every file, wherever it lies under the table's folder, before anything is computed, and
raises BadInputError for the first departure from the contract (RECONCILIATION rules 17 and 18).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import unquote

import fsspec
import fsspec.core
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
from fsspec.implementations.local import LocalFileSystem

from spark_reconcile.errors import BadInputError
from storage.probe_log.schemas import SCHEMAS, TYPES, schema_of
from storage.probe_log.shipping import may_hold

STRING, I32, I64, TIME, BOOL = "str", "i32", "i64", "ts", "bool"
ARROW: Final = {name: TYPES[name] for name in (STRING, I32, I64, TIME, BOOL)}


@dataclass(frozen=True, slots=True)
class Column:
    """A column's type; ``nullable``: may be null; ``optional``: may be missing altogether."""

    type: str
    nullable: bool
    optional: bool


_PLACE: Final = "cluster str, topic str, topic_id str?, partition i32, isolation str"
_ARROW_SCHEMAS: Final = SCHEMAS | {
    "records": schema_of(
        f"{_PLACE}, offset i64, timestamp ts, producer_id i64?, generation i32?, sequence i64?, transaction_id i64?, "
        "valid bool"
    ),
    "bounds": schema_of(
        f"{_PLACE}, earliest_offset i64, end_offset i64, dumped_at ts, retention_ms i64?, retention_bytes i64?, "
        "size_bytes i64?"
    ),
}
_OPTIONAL: Final = ("topic_id", "retention_ms", "retention_bytes", "size_bytes")
"""Columns that other writers may leave out."""
_NAMES: Final = {kind: name for name, kind in ARROW.items()}
TABLES: Final[dict[str, dict[str, Column]]] = {
    table: {one.name: Column(_NAMES[one.type], one.nullable, one.name in _OPTIONAL) for one in schema}
    for table, schema in _ARROW_SCHEMAS.items()
}


def arrow_schema(table: str) -> pa.Schema:
    """Return a table's columns as an Arrow schema."""
    return pa.schema([(name, ARROW[column.type]) for name, column in TABLES[table].items()])


def _is_text(kind: Any) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


_FITS: Final[dict[str, Callable[[Any], bool]]] = {
    STRING: lambda kind: _is_text(kind.value_type if pt.is_dictionary(kind) else kind),
    I32: pt.is_int32,
    I64: pt.is_int64,
    TIME: pt.is_timestamp,
    BOOL: pt.is_boolean,
}
_FOOTER_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The footer's statistics of a row group; ``low`` and ``high`` by column, where the footer has them.

    ``mixed``: they are of one partition's rows only, and the group has rows of other partitions.
    """

    number: int
    rows: int
    nulls: Mapping[str, int]
    low: Mapping[str, Any]
    high: Mapping[str, Any]
    mixed: bool = False

    def only(self, column: str) -> Any:
        """Return the value of a column that has one value only in this row group, by statistics; else None."""
        if self.nulls.get(column, 1) or self.low.get(column) is None or self.low[column] != self.high[column]:
            return None
        return self.low[column]


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file to the contract. ``given``: columns that only its path has (as in ``cluster=c/x.parquet``)."""

    path: str
    table: str
    given: Mapping[str, str]
    columns: frozenset[str]
    groups: tuple[RowGroup, ...]

    def only(self, group: RowGroup, column: str) -> Any:
        """Return the value of a column that has one value only in a row group, by path or statistics; else None."""
        return self.given.get(column, group.only(column))

    def may_have(self, cluster: str) -> bool:
        """Return whether the file may have a row of this cluster, by path or footer."""
        return any(self.only(group, "cluster") in {None, cluster} for group in self.groups)

    def bare(self) -> File:
        """Return the file without the statistics of its row groups."""
        return replace(self, groups=())


def inspect(folder: str, table: str, cluster: str | None = None) -> list[File]:
    """Return the files of a table under ``folder``/``table``, in the order of their paths.

    With ``cluster``, files that belong to another cluster by their names are left out.

    Raises:
        BadInputError: the folder is missing or has no file, a file is not Parquet, or a column is not to the contract.
    """
    place = f"{folder.rstrip('/')}/{table}"
    fs, root = fsspec.core.url_to_fs(place)
    try:
        isdir = fs.isdir(root)
        names = sorted(fs.find(root)) if isdir else []
    except OSError as error:
        raise BadInputError(place, f"cannot be listed ({error})") from error
    if not isdir:
        raise BadInputError(place, "there is no such folder", f"expected a folder of Parquet files with {table}")
    names = [name for name in names if not _hidden(name.removeprefix(root))]
    if not names:
        raise BadInputError(place, "the folder has no Parquet file", f"a {table} file of 0 rows would do")
    if cluster is not None and not (names := [name for name in names if may_hold(name, cluster)]):
        raise BadInputError(
            place,
            f"the folder has no file of cluster {cluster}",
            "probe_log.url has to name the place that the cluster's runner writes to",
        )
    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        return list(pool.map(lambda name: _inspect_file(fs, name, place, name.removeprefix(root), table), names))


def _hidden(relative: str) -> bool:
    """Return whether Spark and Hadoop ignore a file: _SUCCESS, .x.crc and files in folders named so."""
    parts = relative.strip("/").split("/")
    return parts[-1].endswith(".crc") or any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts
    )


def _inspect_file(fs: Any, path: str, place: str, relative: str, table: str) -> File:
    shown = path if isinstance(fs, LocalFileSystem) else f"{place}{relative}"  # with the host, which a path lacks
    try:
        if fs.size(path) == 0:
            raise BadInputError(shown, "the file has 0 bytes", "a Parquet file of 0 rows is longer")
        with fs.open(path, "rb") as file:
            metadata = pq.read_metadata(file)
            schema = metadata.schema.to_arrow_schema()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInputError(shown, f"not a whole Parquet file ({first})") from error
    parts = [part.split("=", 1) for part in relative.strip("/").split("/")[:-1] if "=" in part]
    columns = {name: unquote(value) for name, value in parts}
    given = {name: value for name, value in columns.items() if name not in schema.names}
    _check(shown, schema, given, table)
    groups = tuple(_row_group(metadata, number, schema) for number in range(metadata.num_row_groups))
    for group in groups:
        for name, column in TABLES[table].items():
            if group.nulls.get(name, 0) and not column.nullable:
                raise BadInputError(shown, f"column {name} has nulls, which {table} does not allow")
    return File(shown, table, given, frozenset(schema.names), groups)


def _check(path: str, schema: pa.Schema, given: Mapping[str, str], table: str) -> None:
    for name, column in TABLES[table].items():
        if name in given:
            if column.type not in {STRING, I32, I64}:
                raise BadInputError(path, f"column {name} is missing (a folder's name cannot tell it)")
            continue
        if name not in schema.names:
            if not column.optional:
                raise BadInputError(path, f"column {name} is missing", f"{table} has it as {column.type}")
            continue
        found = schema.field(name).type
        if not _FITS[column.type](found) and not (column.nullable and pt.is_null(found)):
            raise BadInputError(path, f"column {name} is {found}", f"{table} has it as {column.type}")


def _row_group(metadata: Any, number: int, schema: pa.Schema) -> RowGroup:
    group = metadata.row_group(number)
    columns = {column.path_in_schema: column for column in map(group.column, range(group.num_columns))}
    named = {name: columns[name].statistics for name in _OUTLINED & columns.keys() & set(schema.names)}
    known = {name: statistics for name, statistics in named.items() if statistics is not None}
    nulls = {name: statistics.null_count for name, statistics in known.items() if statistics.has_null_count}
    ends = {name: (statistics.min, statistics.max) for name, statistics in known.items() if statistics.has_min_max}
    low, high = ({name: one[which] for name, one in ends.items()} for which in (0, 1))
    return RowGroup(number, group.num_rows, nulls, low, high)


_OUTLINED: Final = frozenset(
    {"cluster", "topic", "partition", "offset", "producer_id", "generation", "sequence", "mode", "outcome", "isolation"}
    | {"sent_at", "valid", "topic_id"}
)

"""The five tables of CONTRACTS "Probe log and dump": their columns, and where a folder departs from them.

`inspect` opens the footer of every file, wherever it lies under the table's folder, before anything is computed, and
raises BadInputError for the first thing that is not to the contract (RECONCILIATION rules 17 and 18).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import fsspec
import fsspec.core
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from spark_reconcile.errors import BadInputError
from storage.probe_log.shipping import may_hold

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STRING, I32, I64, TIME, BOOL = "str", "i32", "i64", "ts", "bool"


@dataclass(frozen=True, slots=True)
class Column:
    """A column's type; ``nullable``: may be null; ``optional``: may be missing altogether."""

    type: str
    nullable: bool = False
    optional: bool = False


def _columns(text: str) -> dict[str, Column]:
    result = {}
    for part in text.split(","):
        name, kind = part.split()
        result[name] = Column(kind.rstrip("?*"), nullable=kind[-1] in "?*", optional=kind[-1] == "*")
    return result


PLACE: Final = "cluster str, topic str, topic_id str*, partition i32"
TABLES: Final[dict[str, dict[str, Column]]] = {
    "probes": _columns(
        f"{PLACE}, producer_id i64, generation i32, sequence i64, mode str, transaction_id i64?, sent_at ts, "
        "outcome str, offset i64?, acked_at ts?, leader_epoch i32?, error str?"
    ),
    "transactions": _columns(
        "cluster str, producer_id i64, generation i32, transaction_id i64, began_at ts, commit_at ts?, outcome str, "
        "ended_at ts?, error str?"
    ),
    "polls": _columns(
        f"{PLACE}, consumer_id str, isolation str, offset i64, producer_id i64, generation i32, sequence i64, "
        "polled_at ts, leader_epoch i32?"
    ),
    "records": _columns(
        f"{PLACE}, isolation str, offset i64, timestamp ts, producer_id i64?, generation i32?, sequence i64?, "
        "transaction_id i64?, valid bool"
    ),
    "bounds": _columns(
        f"{PLACE}, isolation str, earliest_offset i64, end_offset i64, dumped_at ts, retention_ms i64*, "
        "retention_bytes i64*"
    ),
}
"""``*`` marks a column that may be null and may be missing."""

_TEXT: Final[Callable[[Any], bool]] = lambda t: (  # noqa: E731  # one of a row of type tests
    pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t)
)
_FITS: Final[dict[str, Callable[[Any], bool]]] = {
    STRING: lambda t: _TEXT(t.value_type) if pt.is_dictionary(t) else _TEXT(t),
    I32: pt.is_int32,
    I64: pt.is_int64,
    TIME: pt.is_timestamp,
    BOOL: pt.is_boolean,
}
_FOOTER_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class RowGroup:
    """What a footer says of a row group. ``low`` and ``high`` have the statistics of columns that have any.

    ``mixed``: that is of the rows of one partition, and the group has others.
    """

    number: int
    rows: int
    nulls: Mapping[str, int]
    low: Mapping[str, Any]
    high: Mapping[str, Any]
    mixed: bool = False

    def only(self, column: str) -> Any:
        """Return the value of a column that has but one in this row group, as far as statistics go; else None."""
        if self.nulls.get(column, 1) or self.low.get(column) is None or self.low[column] != self.high[column]:
            return None
        return self.low[column]


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file to the contract. ``given``: columns that its path tells (hive style) and it does not hold."""

    path: str
    table: str
    given: Mapping[str, str]
    columns: frozenset[str]
    groups: tuple[RowGroup, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(group.rows for group in self.groups)

    def may_have(self, cluster: str) -> bool:
        """Return whether a row group may have a row of this cluster, by all its footer says."""
        if "cluster" in self.given:
            return self.given["cluster"] == cluster
        return any(group.only("cluster") in {None, cluster} for group in self.groups)

    def bare(self) -> File:
        """Return the file without what its footer says of row groups."""
        return replace(self, groups=())


def inspect(folder: str, table: str, cluster: str | None = None) -> list[File]:
    """Return the files of a table under ``folder``/``table``, in the order of their paths.

    With ``cluster`` those whose names tell that they hold another one's rows are passed over.

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
        return list(pool.map(lambda name: _inspect_file(fs, name, name.removeprefix(root), table), names))


def _hidden(relative: str) -> bool:
    """Return whether Spark and Hadoop would pass over a file: _SUCCESS, .x.crc and whatever lies in such folders."""
    parts = relative.strip("/").split("/")
    return parts[-1].endswith(".crc") or any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts
    )


def _inspect_file(fs: Any, path: str, relative: str, table: str) -> File:
    shown = fs.unstrip_protocol(path) if fs.protocol not in {"file", ("file", "local")} else path
    try:
        size = fs.size(path)
        if size == 0:
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
    nulls: dict[str, int] = {}
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    for index in range(group.num_columns):
        column = group.column(index)
        name = column.path_in_schema
        if name not in _OUTLINED or name not in schema.names or not column.is_stats_set:
            continue
        statistics = column.statistics
        if statistics is None:
            continue
        if statistics.has_null_count:
            nulls[name] = statistics.null_count
        if statistics.has_min_max:
            low[name], high[name] = statistics.min, statistics.max
    return RowGroup(number, group.num_rows, nulls, low, high)


_OUTLINED: Final = frozenset(
    {"cluster", "topic", "partition", "offset", "producer_id", "generation", "sequence", "mode", "outcome", "isolation"}
    | {"sent_at", "valid", "topic_id"}
)

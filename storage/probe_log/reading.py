"""Questions to the probe log: the life of one probe, the identities at some offsets, the rows of some time."""

import functools
import operator
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from fsspec.implementations.local import LocalFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem
from pyarrow.fs import LocalFileSystem as ArrowLocal

from canary.extras import require_for_url
from canary.probe.identity import Identity
from storage.probe_log.errors import NothingThereError, ProbeLogError
from storage.probe_log.schemas import SCHEMAS, TIME
from storage.probe_log.shipping import list_files, may_hold, open_url
from storage.probe_log.windows import (
    MOST_ROWS,
    Window,
    WindowRows,
    WindowTooLargeError,
    identity_of,
    moment,
    transaction_of,
)

Row = dict[str, Any]
_BETTER = {"acked": 0, "failed": 1, "indeterminate": 2}
_FINAL = {"committed": 0, "aborted": 1, "indeterminate": 2}
_TRIES = 3
_LONGEST_TRANSACTION_NS = 3600 * 10**9
"""A transaction of a window's probes began at most so long before the window (brokers allow 15 minutes by default)."""


class ProbeLogReader:
    """The probe log at a URL. Reads nothing until it is asked; safe for several threads.

    Every method raises ProbeLogError if the place cannot be read, and NothingThereError if it holds no file that the
    question could be answered from.

    Raises:
        UserError: the URL needs an extra that is not installed.
    """

    def __init__(self, url: str, clusters: frozenset[str] | None = None) -> None:
        """Read at ``url`` the rows of ``clusters``; None: of all."""
        require_for_url(url, "probe_log.url")
        self._url = url
        self._clusters = clusters

    def of(self, clusters: frozenset[str]) -> "ProbeLogReader":
        """Return the probe log for a principal that may see ``clusters`` only: of others it holds nothing."""
        return ProbeLogReader(self._url, clusters)

    def find(self, identity: Identity) -> Mapping[str, Any] | None:
        """Return the life of one probe, as far as the probe log knows it; None if it does not know it at all.

        Returns:
            ``probe``: its row of probes/ (RECONCILIATION rule 15 decides between several) or None; ``transaction``: its
            transaction's row or None; ``polls``: its rows of polls/, in the order of time. Times are datetimes in UTC.
        """
        wanted = _where(**identity._asdict())
        rows = self._read("probes", wanted)
        polls = list({tuple(row.values()): row for row in self._read("polls", wanted)}.values())
        if not rows and not polls:
            return None
        probe = min(rows, key=_preference, default=None)
        transaction = None
        if probe is not None and probe["transaction_id"] is not None:
            name = {key: probe[key] for key in ("producer_id", "generation", "transaction_id")}
            found = self._read("transactions", _where(**name))
            transaction = min(found, key=lambda row: _FINAL.get(row["outcome"], 9), default=None)
        return {"probe": probe, "transaction": transaction, "polls": sorted(polls, key=lambda row: row["polled_at"])}

    def between(
        self, cluster: str, topic: str, partition: int, start: int, end: int, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        """Return the identities at the offsets [start, end) of a partition, by acks and by polls.

        Returns:
            At most ``limit`` rows, by offset and identity: topic_id, partition, offset, producer_id, generation,
            sequence, outcome and acked_at (None if only polls know it), seen_by (names of consumers, sorted). Two rows
            with one offset and one topic_id are two identities that claim it.
        """
        place = _where(cluster=cluster, topic=topic, partition=partition) & _within("offset", start, end)
        found: dict[tuple[Any, ...], Row] = {}
        for row in self._read("probes", place, cluster=cluster, first=limit):
            found.setdefault(_claim(row), _item(row)).update(outcome=row["outcome"], acked_at=row["acked_at"])
        for row in self._read("polls", place, cluster=cluster, first=limit):
            found.setdefault(_claim(row), _item(row))["seen_by"].add(row["consumer_id"])
        ordered = sorted(found.items(), key=lambda claim: tuple((part is not None, part) for part in claim[0]))
        return [{**item, "seen_by": sorted(item["seen_by"])} for _, item in ordered[:limit]]

    def window(self, wanted: Window) -> WindowRows:
        """Return the rows of a time: probes sent in it, their transactions, and the polls of it.

        Raises:
            WindowTooLargeError: the window holds more rows than fit.
        """
        cluster = wanted.cluster
        begin, end = _time(wanted.begin_ns), _time(wanted.end_ns)
        place = _where(cluster=cluster, topic=wanted.topic, partition=wanted.partition)
        probes: dict[tuple[int, ...], Row] = {}
        for row in self._read("probes", place & _within("sent_at", begin, end), cluster=cluster):
            identity = identity_of(row)
            probes[identity] = min(probes.get(identity, row), row, key=_preference)
        polled = self._read("polls", place & _within("polled_at", begin, end), cluster=cluster)
        polls = {tuple(row.values()): row for row in polled}
        if len(probes) + len(polls) > MOST_ROWS:
            raise WindowTooLargeError(
                f"the window holds {len(probes) + len(polls):,} rows, more than {MOST_ROWS:,}; "
                "take a shorter one, or one partition"
            )
        names = {transaction_of(row) for row in probes.values() if row["transaction_id"] is not None}
        transactions: list[Row] = []
        if names:
            began = _within("began_at", _time(wanted.begin_ns - _LONGEST_TRANSACTION_NS), end)
            found = self._read("transactions", _where(cluster=cluster) & began, cluster=cluster)
            transactions = [row for row in found if transaction_of(row) in names]
        return WindowRows(list(probes.values()), transactions, list(polls.values()))

    def _read(self, table: str, wanted: Any, *, cluster: str | None = None, first: int | None = None) -> list[Row]:
        """Return the rows of a table that fit; with ``first``, enough of them to know the first offsets."""
        import pyarrow.dataset as ds  # noqa: PLC0415  # loads much, and shipping does without

        if self._clusters is not None:
            wanted &= pc.field("cluster").isin(sorted(self._clusters))
        for attempt in range(_TRIES):
            try:
                filesystem, root = open_url(self._url)
                listed = list_files(filesystem, posixpath.join(root, table))
                paths = [path for path in listed if cluster is None or may_hold(path, cluster)]
                if not paths:
                    if table == "probes":  # every segment that was shipped has a file of it
                        raise NothingThereError(self._url, cluster)
                    return []
                local = isinstance(filesystem, LocalFileSystem)
                arrow = ArrowLocal() if local else PyFileSystem(FSSpecHandler(filesystem))
                dataset = ds.dataset(paths, schema=SCHEMAS[table], format="parquet", filesystem=arrow)
                if first is None:
                    return list(dataset.to_table(filter=wanted).to_pylist())
                return _first_offsets(dataset, wanted, first)
            except FileNotFoundError as error:  # retention deleted a file between the listing and the reading
                if attempt == _TRIES - 1:
                    raise ProbeLogError(f"the probe log {self._url} changes while it is read: {error}") from None
            except (OSError, pa.ArrowException) as error:
                raise ProbeLogError(
                    f"the probe log {self._url} cannot be read: {' '.join(str(error).split())}"
                ) from None
        return []


def _first_offsets(dataset: Any, wanted: Any, first: int) -> list[Row]:
    """Read row groups by their lowest offset until no other one can hold one of the ``first`` distinct offsets."""
    groups: list[tuple[int, int, Any]] = []
    for fragment in dataset.get_fragments(filter=wanted):
        for part in fragment.split_by_row_group(filter=wanted):
            statistics = part.row_groups[0].statistics or {}
            groups.append((statistics.get("offset", {}).get("min", -1), len(groups), part))
    rows: list[Row] = []
    for lowest, _, part in sorted(groups, key=lambda group: group[:2]):
        offsets = sorted({row["offset"] for row in rows})
        if len(offsets) > first and lowest > offsets[first]:
            break
        table = part.to_table(schema=dataset.schema, filter=wanted)
        highest = pc.unique(table.column("offset")).sort()[: first + 1]
        if len(highest) > first:  # the rest of the group is beyond what is asked for
            table = table.filter(pc.field("offset") <= highest[-1])
        rows += table.to_pylist()
    return rows


def _where(**values: Any) -> Any:
    """Return the condition that columns have these values; None: any."""
    conditions = (pc.field(name) == value for name, value in values.items() if value is not None)
    return functools.reduce(operator.and_, conditions)


def _within(column: str, begin: Any, end: Any) -> Any:
    """Return the condition that a column is in [begin, end)."""
    return (pc.field(column) >= begin) & (pc.field(column) < end)


def _time(ns: int) -> pa.Scalar:
    return pa.scalar(moment(ns), TIME)


def _claim(row: Row) -> tuple[Any, ...]:
    return row["offset"], row["topic_id"], row["producer_id"], row["generation"], row["sequence"]


def _item(row: Row) -> Row:
    names = ("topic_id", "partition", "offset", "producer_id", "generation", "sequence")
    return {**{name: row[name] for name in names}, "outcome": None, "acked_at": None, "seen_by": set()}


def _preference(row: Row) -> tuple[int, bool, Any, bool]:
    """Rule 15; and of two rows without an ack the one that says why comes first: the other was shipped before that."""
    at = row["acked_at"] or row["sent_at"]
    return _BETTER.get(row["outcome"], 9), row["acked_at"] is None, at, row["error"] is None

"""Questions to the probe log: the life of one probe, and what stands at some offsets. Pure reads of Parquet."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from fsspec.implementations.local import LocalFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem
from pyarrow.fs import LocalFileSystem as ArrowLocal

from canary.extras import require_for_url
from storage.probe_log.errors import NothingThereError, ProbeLogError
from storage.probe_log.schemas import POLLS, PROBES, TIME, TRANSACTIONS
from storage.probe_log.shipping import list_files, may_hold, open_url
from storage.probe_log.windows import MOST_ROWS, Window, WindowRows, WindowTooLargeError, moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from canary.probe.identity import Identity

Row = dict[str, Any]
_BETTER = {"acked": 0, "failed": 1, "indeterminate": 2}
_FINAL = {"committed": 0, "aborted": 1, "indeterminate": 2}
_TRIES = 3
_BEFORE_NS = 3600 * 10**9
"""So long before its last probe a transaction may have begun (brokers allow 15 minutes by default)."""


def find_probe(url: str, identity: Identity) -> Mapping[str, Any] | None:
    """Return the life of one probe, as far as the probe log knows it; None if it does not know it at all.

    Returns:
        ``probe``: its row of probes/ (RECONCILIATION 15 decides between several) or None; ``transaction``: its
        transaction's row or None; ``polls``: its rows of polls/, in the order of time. Times are datetimes in UTC.

    Raises:
        ProbeLogError: the place cannot be read; NothingThereError: it holds nothing at all.
    """
    return ProbeLogReader(url).find(identity)


def rows_between(
    url: str, cluster: str, topic: str, partition: int, start: int, end: int, limit: int = 1000
) -> Sequence[Mapping[str, Any]]:
    """Return who stands at the offsets [start, end) of a partition; see ProbeLogReader.between."""
    return ProbeLogReader(url).between(cluster, topic, partition, start, end, limit)


class ProbeLogReader:
    """The probe log at a URL. Opens nothing until it is asked; safe for several threads.

    Raises:
        UserError: the URL needs an extra that is not installed.
    """

    def __init__(self, url: str) -> None:
        require_for_url(url, "probe_log.url")
        self._url = url

    def find(self, identity: Identity) -> Mapping[str, Any] | None:
        """Return the life of one probe; see find_probe."""
        wanted = (
            (pc.field("producer_id") == identity.producer_id)
            & (pc.field("generation") == identity.generation)
            & (pc.field("partition") == identity.partition)
            & (pc.field("sequence") == identity.sequence)
        )
        rows = self._read("probes", PROBES, wanted)
        polls = list({tuple(row.values()): row for row in self._read("polls", POLLS, wanted)}.values())
        if not rows and not polls:
            return None
        probe = min(rows, key=_preference, default=None)
        transaction = None
        if probe is not None and probe["transaction_id"] is not None:
            found = self._read(
                "transactions",
                TRANSACTIONS,
                (pc.field("producer_id") == identity.producer_id)
                & (pc.field("generation") == identity.generation)
                & (pc.field("transaction_id") == probe["transaction_id"]),
            )
            transaction = min(found, key=lambda row: _FINAL.get(row["outcome"], 9), default=None)
        return {"probe": probe, "transaction": transaction, "polls": sorted(polls, key=lambda row: row["polled_at"])}

    def between(
        self, cluster: str, topic: str, partition: int, start: int, end: int, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        """Return who stands at the offsets [start, end) of a partition, by acks and by polls.

        Returns:
            At most ``limit`` rows, by offset and identity: topic_id, partition, offset, producer_id, generation,
            sequence, outcome (None if only polls know it), seen_by (names of consumers, sorted). Two rows with one
            offset and one topic_id are two identities that claim it.

        Raises:
            ProbeLogError: the place cannot be read; NothingThereError: it holds nothing of the cluster.
        """
        place = (
            (pc.field("cluster") == cluster)
            & (pc.field("topic") == topic)
            & (pc.field("partition") == partition)
            & (pc.field("offset") >= start)
            & (pc.field("offset") < end)
        )
        found: dict[tuple[Any, ...], Row] = {}
        for row in self._read("probes", PROBES, place, cluster=cluster, first=limit):
            item = found.setdefault(_claim(row), _item(row))
            item["outcome"] = row["outcome"]
        for row in self._read("polls", POLLS, place, cluster=cluster, first=limit):
            found.setdefault(_claim(row), _item(row))["seen_by"].add(row["consumer_id"])
        ordered = sorted(found.items(), key=lambda claim: tuple((part is not None, part) for part in claim[0]))
        return [{**item, "seen_by": sorted(item["seen_by"])} for _, item in ordered[:limit]]

    def window(self, wanted: Window) -> WindowRows:
        """Return the rows of a time: probes sent in it, their transactions, and the polls of it.

        Raises:
            ProbeLogError: the place cannot be read; NothingThereError: it holds nothing of the cluster;
                WindowTooLargeError: the window holds more rows than fit.
        """
        begin, end = pa.scalar(moment(wanted.begin_ns), TIME), pa.scalar(moment(wanted.end_ns), TIME)
        place = pc.field("cluster") == wanted.cluster
        if wanted.topic is not None:
            place &= pc.field("topic") == wanted.topic
        if wanted.partition is not None:
            place &= pc.field("partition") == wanted.partition
        times = (pc.field("sent_at") >= begin) & (pc.field("sent_at") < end)
        probes: dict[tuple[Any, ...], Row] = {}
        for row in self._read("probes", PROBES, place & times, cluster=wanted.cluster):
            name = (row["producer_id"], row["generation"], row["partition"], row["sequence"])
            probes[name] = min(probes.get(name, row), row, key=_preference)
        polled = (pc.field("polled_at") >= begin) & (pc.field("polled_at") < end)
        polls = {tuple(row.values()): row for row in self._read("polls", POLLS, place & polled, cluster=wanted.cluster)}
        if len(probes) + len(polls) > MOST_ROWS:
            raise WindowTooLargeError(
                f"the window holds {len(probes) + len(polls):,} rows, more than {MOST_ROWS:,}; "
                "take a shorter one, or one partition"
            )
        names = {
            (row["producer_id"], row["generation"], row["transaction_id"])
            for row in probes.values()
            if row["transaction_id"] is not None
        }
        transactions: list[Row] = []
        if names:
            own = (
                (pc.field("cluster") == wanted.cluster)
                & (pc.field("began_at") >= pa.scalar(moment(wanted.begin_ns - _BEFORE_NS), TIME))
                & (pc.field("began_at") < end)
            )
            found = self._read("transactions", TRANSACTIONS, own, cluster=wanted.cluster)
            transactions = [
                row for row in found if (row["producer_id"], row["generation"], row["transaction_id"]) in names
            ]
        return WindowRows(list(probes.values()), transactions, list(polls.values()))

    def _read(
        self, table: str, schema: pa.Schema, wanted: Any, *, cluster: str | None = None, first: int | None = None
    ) -> list[Row]:
        """Return the rows of a table that fit; with ``first``, enough of them to know the first offsets."""
        import pyarrow.dataset as ds  # noqa: PLC0415  # only who reads needs it

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
                dataset = ds.dataset(paths, schema=schema, format="parquet", filesystem=arrow)
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


def _claim(row: Row) -> tuple[Any, ...]:
    return row["offset"], row["topic_id"], row["producer_id"], row["generation"], row["sequence"]


def _item(row: Row) -> Row:
    names = ("topic_id", "partition", "offset", "producer_id", "generation", "sequence")
    return {**{name: row[name] for name in names}, "outcome": None, "seen_by": set()}


def _preference(row: Row) -> tuple[int, bool, Any]:
    return _BETTER.get(row["outcome"], 9), row["acked_at"] is None, row["acked_at"] or row["sent_at"]

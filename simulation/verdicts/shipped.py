"""What the night finds at the end of a life: the probe log as it was shipped, and a dump of the cluster's logs.

The dump asks the simulated brokers as Spark's source asks real ones, and decodes with the same code. The rest is the
product's: the inspection of the files, the reading of a window, the kernel.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from canary.probe.record import tag
from simulation.clients.admin import uuid_of
from simulation.machine.system import EPOCH_NS
from simulation.nights.memory import PLACED, matched
from spark_reconcile.dump.decoding import Decoder
from spark_reconcile.job.inputs import look
from spark_reconcile.tables.columns import ISOLATIONS
from spark_reconcile.tables.parquet import read
from spark_reconcile.tables.schema import arrow_schema
from storage.probe_log.reading import ProbeLogReader
from storage.probe_log.windows import Window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simulation.kafka.contract import Isolation, Record
    from simulation.world.world import World
    from storage.probe_log.windows import WindowRows

LOG, DUMP = "memory://probe-log", "memory://dump"
SITE = "elsewhere"
"""Where Spark runs: no harm parts it from the cluster."""
MOST = 1 << 30
CUTS = 3
"""Into so many ranges and one more each partition is cut, as the night's tasks cut it."""
DAY_NS = 86_400 * 10**9
_RAW = pa.schema(
    [
        ("topic", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("value", pa.binary()),
    ]
)
"""What Spark's source gives to the decoder."""


@dataclass(frozen=True, slots=True)
class Shipped:
    """``rows`` of the probe log; ``night``: what the kernel says of them and of the dump, taken at ``dumped_us``."""

    rows: WindowRows
    night: Mapping[str, Any]
    dumped_us: int


def shipped(world: World) -> Shipped:
    """Reconcile what a life has left."""
    dumped_us = EPOCH_NS // 1000 + round(world.schedule.now * 1e6)
    bounds = _dump(world, dumped_us)
    cluster = world.settings.clusters[0].name
    inputs = look(LOG, DUMP, cluster=cluster)
    tables = {table: [read(file) for file in inputs.files[table]] for table in PLACED}
    dice = random.Random(world.plan.seed)
    ends = max((row["end_offset"] for row in bounds), default=0)
    cuts = sorted({dice.randrange(ends) for _ in range(CUTS)}) if ends else []
    issued = world.store.store.identities.generations(cluster)
    night = matched(tables, inputs.dumped, inputs.transactions, cuts, dice, issued)
    rows = ProbeLogReader(LOG).window(Window(cluster, EPOCH_NS - 30 * DAY_NS, EPOCH_NS + 900 * DAY_NS))
    return Shipped(rows, night, dumped_us)


def _dump(world: World, dumped_us: int) -> list[dict[str, Any]]:
    """Dump the probe topics to DUMP, as `spark_reconcile.dump` does; return the rows of bounds/."""
    cluster, asked = world.settings.clusters[0].name, world.cluster
    known = asked.metadata(world.any_broker()).topics
    topics = [known[name] for name in dict.fromkeys(world.topics()) if name in known and not known[name].error]
    installation = world.store.store.identities.installation()
    marks: dict[str, Any] = {}
    for topic in topics:
        topic_id = str(uuid_of(topic.topic_id)) if topic.topic_id is not None else None
        tags = tuple(tag(installation, asked.cluster_id, topic.name, one) for one in {topic_id, None})
        marks[topic.name] = tags, topic_id
    bounds: list[dict[str, Any]] = []
    records: list[pa.Table] = [arrow_schema("records").empty_table()]
    for level in ISOLATIONS:
        decoder = Decoder(cluster, level, marks, "")
        for number, topic in enumerate(topics):
            _, config = asked.describe_config(world.any_broker(), "topic", topic.name)
            for partition in topic.partitions:
                found = _read(world, topic.name, partition.id, level)
                if found is None:
                    continue
                start, end, some = found
                place = {"cluster": cluster, "topic": topic.name, "topic_id": marks[topic.name][1]}
                place |= {"partition": partition.id, "isolation": level}
                kept = {name: int(config[name.replace("_", ".")]) for name in ("retention_ms", "retention_bytes")}
                bounds.append(place | {"earliest_offset": start, "end_offset": end, "dumped_at": dumped_us} | kept)
                if some:
                    decoded = decoder._decoded(  # noqa: SLF001  # what Spark calls for each batch
                        _raw(number, partition.id, some), number, partition.id
                    )
                    records.append(decoded.cast(records[0].schema))
    _write("records", pa.concat_tables(records))
    _write("bounds", pa.Table.from_pylist(bounds, arrow_schema("bounds")))
    return bounds


def _raw(topic: int, partition: int, records: Sequence[Record]) -> pa.RecordBatch:
    rows = [(topic, partition, one.offset, one.timestamp_ms * 1000, one.value) for one in records]
    columns = zip(zip(*rows, strict=True), _RAW, strict=True)
    return pa.record_batch([pa.array(values, column.type) for values, column in columns], _RAW)


def _read(world: World, topic: str, partition: int, level: Isolation) -> tuple[int, int, Sequence[Any]] | None:
    """Return (start, end, records) of a partition as its leader shows them; None: it does not answer."""
    leader = world.cluster.leader(topic, partition)
    if leader < 0:
        return None
    start = world.cluster.list_offset(SITE, leader, topic, partition, "earliest", level)
    end = world.cluster.list_offset(SITE, leader, topic, partition, "latest", level)
    if start.error or end.error:
        return None
    fetched = world.cluster.fetch(SITE, leader, topic, partition, start.offset, isolation=level, most=MOST)
    if fetched.error:
        raise RuntimeError(f"{topic}[{partition}] was listed, and is not read: {fetched.error}")
    return start.offset, end.offset, fetched.records


def _write(table: str, rows: pa.Table) -> None:
    filesystem = fsspec.filesystem("memory")
    with filesystem.open(f"/dump/{table}/part.parquet", "wb") as file:
        pq.write_table(rows, file)

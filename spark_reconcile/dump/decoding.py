"""The work of a task of the dump: records of a range of one partition, decoded with NumPy, into a Parquet file."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from canary.probe.batch import CORRUPT, INTACT, BinaryBuffers, decode_batch
from spark_reconcile.dump.fingerprints import checksum
from spark_reconcile.tables.columns import changes
from spark_reconcile.tables.schema import ARROW, STRING, TABLES, TIME
from spark_reconcile.tables.writing import PartStream

_WRITTEN: Final = pa.schema(
    [
        (name, pa.dictionary(pa.int32(), ARROW[STRING]) if column.type == STRING else ARROW[column.type])
        for name, column in TABLES["records"].items()
    ]
)
"""The rows of a task: each text column has one value, held once."""
_RISING: Final = ("offset", "timestamp", "sequence", "transaction_id")
RESULT: Final = "file string, topic long, partition long, rows long, offsets array<long>, contents array<string>"
"""What a task returns of each file it wrote; offset and `fingerprints.End.content` of first and last record."""
Marks: TypeAlias = tuple[tuple[bytes, ...], str | None]
"""The tags that mark a topic's records as ours, and the topic's id."""


class Decoder:
    """Arrow batches of a partition's records in, a Parquet file out; yields what RESULT describes.

    The column topic has the topic's number in ``tags``: Spark would otherwise carry a name in every row.
    """

    def __init__(self, cluster: str, isolation: str, tags: Mapping[str, Marks], work: str) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._topics = list(tags.items())
        self._work = work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode the batches of one task."""
        parts = (part for batch in batches for part in _by_place(batch))
        for place, some in groupby(parts, key=_place):
            stream = PartStream(self._work, _WRITTEN, _RISING)
            ends: list[tuple[int, str]] = []
            for part in some:
                stream.write(self._decoded(part, *place))
                ends = [ends[0] if ends else _end(part, 0), _end(part, len(part) - 1)]
            file, rows = stream.close()
            offsets, contents = zip(*ends, strict=True)
            result = {"file": file, "topic": place[0], "partition": place[1], "rows": rows}
            yield pa.RecordBatch.from_pylist([result | {"offsets": offsets, "contents": contents}])

    def _decoded(self, batch: pa.RecordBatch, number: int, partition: int) -> pa.Table:
        topic, (tags, topic_id) = self._topics[number]
        decoded = decode_batch(_buffers(batch.column("value")), None)
        marked = np.isin(decoded.tag, [int.from_bytes(one, "little") for one in tags])
        ours = marked & (decoded.status == INTACT)
        misplaced = ours & (decoded.partition != partition)  # intact, and in a partition it was never sent to
        foreign = ~ours | misplaced
        rows = len(batch)
        return pa.table(
            [
                _text(self._cluster, rows),
                _text(topic, rows),
                _text(topic_id, rows),
                pa.repeat(pa.scalar(partition, pa.int32()), rows),
                _text(self._isolation, rows),
                batch.column("offset"),
                batch.column("timestamp").cast(ARROW[TIME]),
                pa.array(decoded.producer_id, mask=foreign),
                pa.array(decoded.generation, mask=foreign),
                pa.array(decoded.sequence, mask=foreign),
                pa.array(decoded.transaction_id, mask=foreign | (decoded.transaction_id < 0)),
                pa.array(~(marked & (decoded.status == CORRUPT)) & ~misplaced),
            ],
            schema=_WRITTEN,
        )


def _end(batch: pa.RecordBatch, row: int) -> tuple[int, str]:
    timestamp = batch.column("timestamp")[row].cast(ARROW[TIME]).value
    return batch.column("offset")[row].as_py(), checksum(timestamp // 1000, batch.column("value")[row].as_py())


def _text(value: str | None, rows: int) -> pa.DictionaryArray:
    """Return a column of one text (or of nulls)."""
    places = pa.nulls(rows, pa.int32()) if value is None else pa.array(np.zeros(rows, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(places, pa.array([] if value is None else [value], pa.string()))


def _buffers(column: Any) -> BinaryBuffers:
    """Return the buffers of an Arrow binary array."""
    validity, offsets, data = column.buffers()
    kind: Any = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    starts = np.frombuffer(offsets, dtype=kind)[column.offset : column.offset + len(column) + 1]
    valid = None
    if column.null_count and validity is not None:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
    return BinaryBuffers(np.frombuffer(data or b"", dtype=np.uint8), starts, valid)


def _by_place(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield runs of one partition: Spark gives a task one, but does not promise to."""
    if not len(batch):
        return
    topic, partition = batch.column("topic").to_numpy(), batch.column("partition").to_numpy()
    steps = np.flatnonzero(changes(topic, partition)) + 1
    for start, stop in pairwise([0, *steps.tolist(), len(batch)]):
        yield batch.slice(start, stop - start)


def _place(batch: pa.RecordBatch) -> tuple[int, int]:
    return batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()

"""The lost writes of a run, with all that is known of each: what call-me-maybe would merge back.

``lost/`` has one row for each acknowledged write that is not in its topic, or expired too early. A probe can be rebuilt
from its row (`rebuilt`): the key is its identity, and everything in the value follows from the row and the topic's tag,
but for the sub-microsecond digits of the sending time, which the probe log does not keep.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import fsspec.core
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from canary.probe.batch import encode_keys
from canary.probe.identity import Identity
from canary.probe.record import DEFAULT_LENGTH, encode, key
from spark_reconcile.match.anomalies import ANOMALIES
from spark_reconcile.report.output import CASE_SCHEMA
from spark_reconcile.tables.writing import PartStream

_KINDS: Final = pa.array([anomaly.kind for anomaly in ANOMALIES.values() if anomaly.lost])
_LEFT_OUT: Final = ("found_offset", "evidence")
LOST_SCHEMA: Final = pa.schema([*(field for field in CASE_SCHEMA if field.name not in _LEFT_OUT), ("key", pa.binary())])
_BATCH: Final = 65_536


def write(work: str, names: Sequence[str | None]) -> str | None:
    """Write the lost writes among the cases in files ``names`` of the work folder; return the new file's name.

    None: nothing was lost, and there is no file.
    """
    fs, root = fsspec.core.url_to_fs(work)
    stream = None
    for name in filter(None, names):
        with fs.open(f"{root}/{name}", "rb") as file, pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(_BATCH):
                rows = pa.Table.from_batches([batch])
                rows = rows.filter(pc.and_(pc.is_in(rows["kind"], _KINDS), pc.is_valid(rows["sequence"])))
                if len(rows):
                    stream = stream or PartStream(work, LOST_SCHEMA)
                    stream.write(_with_keys(rows))
    return None if stream is None else stream.close()[0]


def rebuilt(row: Mapping[str, Any], tag: bytes, length: int = DEFAULT_LENGTH) -> tuple[bytes, bytes]:
    """Return key and value (``length`` bytes) of the probe in a row of lost/; ``tag`` is the topic's."""
    identity = Identity(row["producer_id"], row["generation"], row["partition"], row["sequence"])
    value = encode(
        identity,
        tag=tag,
        mode=row["mode"],
        transaction_id=row["transaction_id"],
        sent_at_ns=round(row["sent_at"].timestamp() * 1_000_000) * 1000,
        length=length,
    )
    return key(identity), value


def _with_keys(rows: pa.Table) -> pa.Table:
    names = ("producer_id", "generation", "partition", "sequence")
    keys = encode_keys(*(rows.column(name).to_numpy() for name in names))
    column = pa.array([one.tobytes() for one in keys], pa.binary())
    return rows.drop_columns(list(_LEFT_OUT)).append_column("key", column).cast(LOST_SCHEMA)

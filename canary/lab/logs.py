"""Cut a partition's log short on a stopped broker's disk: what is left after a crash that lost the page cache.

A partition's directory holds segments ``<base offset>.log`` of record batches (offset 8 bytes, length 4, leader
epoch 4, magic 1, CRC 4, attributes 2, last offset delta 4, ...), indexes beside each, producer snapshots named by
offset, and ``leader-epoch-checkpoint``. Beside the partitions are checkpoints of all of them. After a cut these must
not promise more than the log holds, and Kafka has to recover the log itself:

* ``.kafka_cleanshutdown`` is removed, or Kafka would trust the log and not recover it;
* the partition's ``recovery-point-offset-checkpoint`` is set to its first segment, so that recovery reads all of it and
  rebuilds the indexes of what it reads (a torn last batch, which a cut in bytes leaves, is dropped there);
* ``replication-offset-checkpoint`` (the high watermark) is lowered to the new end;
* indexes of segments that were cut, and producer snapshots beyond the end, are removed; Kafka rebuilds them;
* ``leader-epoch-checkpoint`` loses the epochs that begin beyond the new end, as Kafka would do itself.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from canary.lab.errors import LabError

_HEADER = struct.Struct(">qiib4xhi")  # base offset, length, leader epoch, magic, (crc), attributes, last offset delta
_OVERHEAD = 12  # bytes of base offset and length, which the length does not count


@dataclass(frozen=True, slots=True)
class Cut:
    """What a truncation did: records from ``after`` to ``before`` (end offsets) are gone on this broker."""

    before: int
    after: int
    bytes_removed: int


def end_offset(data: Path, topic: str, partition: int) -> int:
    """Return the end offset that a log's whole batches give.

    Raises:
        LabError: the broker holds no such partition.
    """
    return _end(_segments(_partition(data, topic, partition)))


def truncate(data: Path, topic: str, partition: int, *, count: int | None = None, to_offset: int | None = None) -> Cut:
    """Cut a log in ``data``, the log directory of a broker that does not run.

    Either ``count`` bytes from the end (more than there are leave an empty log), or ``to_offset`` and all behind it. A
    batch is the smallest unit on disk: one that begins before the offset and reaches it is removed as a whole, so
    ``Cut.after`` may be less.

    Raises:
        LabError: no such partition, or not exactly one of count and to_offset.
    """
    if (count is None) == (to_offset is None):
        raise LabError("say either how many bytes to cut or to which offset")
    directory = _partition(data, topic, partition)
    segments = _segments(directory)
    before = _end(segments)
    removed = _cut_bytes(segments, count) if count is not None else _cut_offset(segments, to_offset or 0)
    segments = _segments(directory)
    after = _end(segments)
    if removed:
        _lower_checkpoints(data, directory, segments[0], after)
    return Cut(before, after, removed)


def _partition(data: Path, topic: str, partition: int) -> Path:
    directory = data / f"{topic}-{partition}"
    if not directory.is_dir() or not any(directory.glob("*.log")):
        raise LabError(f"no log of {topic}-{partition} in {data}: the broker holds no replica of it")
    return directory


def _segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def _end(segments: list[Path]) -> int:
    ends = (next_offset for segment in segments for _, next_offset in _batches(segment))
    return max((int(segments[-1].stem), *ends))


def _batches(segment: Path) -> Iterator[tuple[int, int]]:
    """Yield the position in the file of each whole batch, and the offset behind it; stop at a torn one."""
    size = segment.stat().st_size
    with segment.open("rb") as file:
        position = 0
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            base, length, _epoch, magic, _attributes, delta = _HEADER.unpack(header)
            end = position + _OVERHEAD + length
            if magic != 2 or length <= 0 or end > size:
                return
            yield position, base + delta + 1
            position = file.seek(end)


def _cut_bytes(segments: list[Path], count: int) -> int:
    left = count
    for segment in reversed(segments):
        size = segment.stat().st_size
        if left <= 0:
            break
        _shorten(segment, size - min(left, size), last=segment is segments[0])
        left -= min(left, size)
    return count - left


def _cut_offset(segments: list[Path], to_offset: int) -> int:
    removed = 0
    for segment in segments:
        size = segment.stat().st_size
        keep = next((position for position, behind in _batches(segment) if behind > to_offset), size)
        if int(segment.stem) >= to_offset:
            keep = 0
        if keep < size:
            _shorten(segment, keep, last=segment is segments[0])
            removed += size - keep
    return removed


def _shorten(segment: Path, size: int, *, last: bool) -> None:
    """Cut a segment file, with its indexes; one without a byte goes, unless it is the only one left."""
    for suffix in (".index", ".timeindex", ".txnindex"):
        segment.with_suffix(suffix).unlink(missing_ok=True)
    if size == 0 and not last:
        segment.unlink()
        return
    with segment.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def _lower_checkpoints(data: Path, directory: Path, first: Path, end: int) -> None:
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    for snapshot in directory.glob("*.snapshot"):
        if snapshot.stem.isdigit() and int(snapshot.stem) > end:
            snapshot.unlink()
    topic, _, partition = directory.name.rpartition("-")
    _limit(data / "recovery-point-offset-checkpoint", (topic, partition), int(first.stem))
    _limit(data / "replication-offset-checkpoint", (topic, partition), end)
    epochs = directory / "leader-epoch-checkpoint"
    if epochs.is_file():
        entries = [line.split() for line in epochs.read_text().splitlines()[2:]]
        _write_checkpoint(epochs, [" ".join(entry) for entry in entries if int(entry[1]) < end])


def _limit(checkpoint: Path, key: tuple[str, str], most: int) -> None:
    """Lower one partition's offset in a checkpoint file (version, count, then "topic partition offset" lines)."""
    if not checkpoint.is_file():
        return
    lines = []
    for line in checkpoint.read_text().splitlines()[2:]:
        topic, partition, offset = line.split()
        value = min(int(offset), most) if (topic, partition) == key else int(offset)
        lines.append(f"{topic} {partition} {value}")
    _write_checkpoint(checkpoint, lines)


def _write_checkpoint(path: Path, lines: list[str]) -> None:
    temporary = path.with_name(path.name + ".lab")
    temporary.write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
    temporary.replace(path)

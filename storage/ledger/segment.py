"""Reads a segment: which frames are whole, and what is wrong with the rest."""

import contextlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from canary.facts import FACT_KINDS, Fact
from storage.ledger.codec import decode_facts, decode_table
from storage.ledger.errors import LedgerError
from storage.ledger.files import DISK, Disk
from storage.ledger.framing import (
    FACTS,
    FRAME_BYTES,
    HEADER_BYTES,
    SNAPSHOT,
    Frame,
    Header,
    decode_header,
    frame_at,
    frame_length,
    has_frame_after,
    is_unfinished,
    spoiled_snapshot,
)

_NAME = re.compile(r"segment-(\d{10})\.ledger")


def segment_path(directory: Path, number: int) -> Path:
    """Return the path of the segment ``number`` of a ledger."""
    return directory / f"segment-{number:010d}.ledger"


def segment_number(path: Path) -> int:
    """Return the number of the segment at ``path``.

    Raises:
        LedgerError: the file's name is not a segment's.
    """
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise LedgerError(f"{path} is not a segment of a ledger (segment-NNNNNNNNNN.ledger)")
    return int(match[1])


def segment_paths(directory: Path, disk: Disk = DISK) -> list[Path]:
    """Return the segments in ``directory``, oldest first."""
    return sorted(path for path in disk.entries(directory) if _NAME.fullmatch(path.name))


@dataclass(frozen=True, slots=True)
class Segment:
    """The content of a segment's file.

    ``header`` is None if it is unreadable. ``good_bytes`` end after the last whole frame. ``torn``: an end that was
    never written completely, and was dropped. ``damage``: bytes that were complete once and are bad; nothing after them
    is read. ``spoiled``: the segment begins with an unreadable snapshot, which ``frames`` lack.
    """

    path: Path
    number: int
    header: Header | None
    frames: list[Frame] = field(repr=False)
    good_bytes: int
    torn: str | None
    damage: str | None
    spoiled: str | None = None
    disk: Disk = field(default=DISK, repr=False)

    @property
    def has_snapshot(self) -> bool:
        """Whether the segment begins with a snapshot; then the segments before it are not needed."""
        return bool(self.frames) and self.frames[0].kind == SNAPSHOT

    def snapshot(self) -> bytes | None:
        """Return the snapshot that the segment begins with.

        Raises:
            LedgerError: the file cannot be read.
        """
        return self._payload(self.frames[0]) if self.has_snapshot else None

    def batches(self, kinds: Collection[type[Fact]] = FACT_KINDS) -> Iterator[list[Fact]]:
        """Yield the facts of ``kinds`` in order, batch by batch as they are read from the file.

        Raises:
            LedgerError: the file cannot be read, or a batch not decoded.
        """
        return (decode_facts(payload, kinds) for payload in self._batches())

    def tables(self) -> Iterator[pa.Table]:
        """Yield the same batches as tables (codec.decode_table): no fact is made.

        Raises:
            LedgerError: the file cannot be read, or a batch not decoded.
        """
        return map(decode_table, self._batches())

    def _batches(self) -> Iterator[bytes]:
        return (self._payload(frame) for frame in self.frames if frame.kind == FACTS)

    def _payload(self, frame: Frame) -> bytes:
        try:
            data = self.disk.read(self.path, frame.start - FRAME_BYTES, frame.end - frame.start + FRAME_BYTES)
        except OSError as error:
            raise LedgerError(f"the ledger's segment {self.path} cannot be read: {error.strerror}") from error
        if frame_at(memoryview(data), 0) is None:  # between the scan and now
            raise LedgerError(f"the ledger's segment {self.path} changed while it was read, at byte {frame.start}")
        return data[FRAME_BYTES:]


def scan_segment(path: Path, counted: int | None, disk: Disk = DISK) -> Segment:
    """Read a segment and find its whole frames.

    Args:
        path: the segment's file.
        counted: how many bytes of it count, as its successor says; None without a successor (then an unreadable end is
            torn if no whole frame follows it, else damage).
        disk: where the file is.

    Raises:
        LedgerError: the file cannot be read at all.
    """
    try:
        content = disk.read(path)
    except OSError as error:
        raise LedgerError(f"the ledger's segment {path} cannot be read: {error.strerror}") from error
    number = segment_number(path)
    data = memoryview(content)[:counted]
    header = decode_header(data)
    if header is not None and (header.number != number or header.previous >= number):
        header = None  # of another file; to follow it could lead into a cycle
    if header is None and counted != 0:
        return Segment(path, number, None, [], 0, None, f"{path.name}: the header is damaged", disk=disk)
    position = min(HEADER_BYTES, len(data))
    frames: list[Frame] = []
    torn = damage = spoiled = None
    if frame_at(data, position) is None and (end := spoiled_snapshot(data)) is not None:
        position, spoiled = end, f"{path.name}: its snapshot is damaged"
    while (frame := frame_at(data, position)) is not None:
        frames.append(frame)
        position = frame.end
    if counted is not None and position < counted:
        damage = f"{path.name}: damaged at byte {position} of {counted}"
    elif counted is None and position < len(data):
        if has_frame_after(data, position):
            damage = f"{path.name}: damaged at byte {position} of {len(data)}, whole frames follow"
        elif position == HEADER_BYTES or not is_unfinished(data, position):  # the first frame comes with the file
            damage = f"{path.name}: damaged at byte {position} of {len(data)}"
        else:
            torn = f"{path.name}: the last {len(data) - position} bytes, from byte {position}, were never finished"
    return Segment(path, number, header, frames, position, torn, damage, spoiled, disk)


def read_segment(path: Path, disk: Disk = DISK) -> Segment:
    """Read the segment at ``path``, as far as it counts by its successor's header (if it has a successor).

    Raises:
        LedgerError: the file is not a segment or cannot be read.
    """
    number = segment_number(path)
    counted = None
    with _readable(path):
        for later in reversed(segment_paths(path.parent, disk)):  # the last of two successors counts, as in recovery
            header = read_header(later, disk)
            if header is not None and header.previous == number:
                counted = header.previous_bytes
                break
    return scan_segment(path, counted, disk)


def segments_beside(path: Path, disk: Disk = DISK) -> list[Path]:
    """Return the segments in the directory of the one at ``path``, and itself, oldest first.

    Raises:
        LedgerError: the directory cannot be read.
    """
    with _readable(path):
        return segment_paths(path.parent, disk)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Make a LedgerError of what cannot be read beside the segment at ``path``."""
    try:
        yield
    except OSError as error:
        raise LedgerError(f"the segments beside {path} cannot be read: {error.strerror}") from error


def read_header(path: Path, disk: Disk = DISK) -> Header | None:
    """Return the header of the segment at ``path``; None if it is damaged or gone."""
    try:
        return decode_header(disk.read(path, 0, HEADER_BYTES))
    except FileNotFoundError:
        return None


def begins_with_snapshot(path: Path, disk: Disk = DISK) -> bool:
    """Whether the segment at ``path`` has a readable header and begins with an intact snapshot."""
    try:
        start = disk.read(path, 0, HEADER_BYTES + FRAME_BYTES)
        if decode_header(start) is None or len(start) < HEADER_BYTES + FRAME_BYTES:
            return False
        rest = disk.read(path, len(start), frame_length(start[HEADER_BYTES:]))
    except FileNotFoundError:
        return False
    frame = frame_at(memoryview(start + rest), HEADER_BYTES)
    return frame is not None and frame.kind == SNAPSHOT

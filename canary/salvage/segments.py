"""The batches in a partition's segment files, in order, and the places that are no whole batch.

After a crash without fsync the last segment may end with a torn batch, with zeros, or with pages that were never
written; a disk may have damaged any other. Each such place is named, and what follows it is looked for byte by byte: a
batch is where a header makes sense and the CRC is right. That does not cover base offset and leader epoch, so these are
held against those of the batches around: offsets go up, and epochs do not go down.
"""

import itertools
import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from canary.errors import UserError
from canary.wire.errors import RecordsError
from canary.wire.records import Batch, batches

_NAME: Final = re.compile(r"[0-9]{20}\.log")
_LENGTH_AT: Final = 8
_PREFIX: Final = 12
_MAGIC_AT: Final = 16
_MAGIC: Final = b"\x02"
_CHUNK: Final = 1 << 20
_REACH: Final = 1 << 31
"""Offsets in a segment are less than this above its first."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A place in a segment that cannot be read.

    Attributes:
        file: the segment's name.
        position: in bytes from its beginning.
        size: in bytes, up to the next batch or to the end of the file.
        what: "zeros": nothing but zero bytes, up to the end; "torn": a batch that the file ends within; "crc": a batch
            whose bytes are not those that were written, or whose offset or epoch the batches around contradict; "no
            batch": anything else.
        offset: of the first record that may have been there.
    """

    file: str
    position: int
    size: int
    what: Literal["zeros", "torn", "crc", "no batch"]
    offset: int


def segments(directory: Path) -> list[Path]:
    """Return a partition's segments, the oldest first.

    Raises:
        OSError: the directory cannot be read; ``glob`` would find nothing in it.
    """
    return sorted(one for one in directory.iterdir() if _NAME.fullmatch(one.name))


def scan(files: Sequence[Path], *, checked_from: int | None) -> Iterator[tuple[Path, Batch | Damage]]:
    """Yield the batches of segments, and what is damaged between them, each with its file.

    Args:
        files: the segments, the oldest first.
        checked_from: the CRC of batches with this offset or a later one is checked; None: of none.

    Raises:
        UserError: a segment cannot be read.
    """
    expected, epoch = 0, -1
    for path, following in itertools.zip_longest(files, files[1:]):
        expected = max(expected, int(path.stem))
        try:
            if path.stat().st_size == 0:
                continue
            with path.open("rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # unmapped with its last batch
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}") from error
        below = int(following.stem) if following is not None else None
        for one in _Segment(path.name, data, checked_from, below).read(expected, epoch):
            yield path, one
            if isinstance(one, Batch):
                expected, epoch = one.last_offset + 1, one.leader_epoch


class _Segment:
    def __init__(self, name: str, data: mmap.mmap, checked_from: int | None, below: int | None) -> None:
        self._name = name
        self._data = data
        self._view = memoryview(data)
        self._checked_from = checked_from
        self._below = below  # the first offset of the next segment

    def read(self, expected: int, epoch: int) -> Iterator[Batch | Damage]:
        """Yield what is in the segment; ``expected`` and ``epoch`` are the lowest offset and epoch that may follow."""
        at, size = 0, len(self._view)
        while at < size:
            batch = self._batch(at, expected)
            if batch is not None and self._sound(batch) and self._fits(batch, expected, epoch):
                expected, epoch = batch.last_offset + 1, batch.leader_epoch
                at += batch.size
                yield batch
                continue
            follows = self._following(at, batch, expected)
            yield Damage(self._name, at, follows - at, self._what(at, follows, batch), expected)
            at = follows

    def _batch(self, at: int, expected: int) -> Batch | None:
        """Return the batch whose header is there; None: there is none that could follow."""
        try:
            batch = next(batches(self._view, at), None)
        except RecordsError:
            return None
        return batch if batch is not None and expected <= batch.base_offset < expected + _REACH else None

    def _fits(self, batch: Batch, expected: int, epoch: int) -> bool:
        """Return whether neither those before nor the next batch contradict its offset or its epoch."""
        if 0 <= batch.leader_epoch < epoch or (self._below is not None and batch.last_offset >= self._below):
            return False
        if (batch.base_offset, batch.leader_epoch) == (expected, epoch):
            return True
        following = self._batch(batch.position + batch.size, expected)
        if following is None or not following.crc_is_right:
            return True
        if batch.base_offset > expected and following.base_offset <= batch.last_offset:
            return following.base_offset <= expected
        if batch.leader_epoch <= following.leader_epoch or following.leader_epoch < epoch:
            return True
        beyond = self._batch(following.position + following.size, expected)  # tells which of the two does not fit
        return beyond is not None and batch.leader_epoch <= beyond.leader_epoch

    def _sound(self, batch: Batch) -> bool:
        return self._checked_from is None or batch.last_offset < self._checked_from or batch.crc_is_right

    def _following(self, at: int, broken: Batch | None, expected: int) -> int:
        """Return where the next batch begins, or the end of the file."""
        if broken is not None:
            behind = at + broken.size
            if behind == len(self._view) or self._batch(behind, broken.last_offset + 1) is not None:
                return behind  # its header was right, what it holds is not
        found = self._data.find(_MAGIC, at + 1 + _MAGIC_AT)
        while found >= 0:
            batch = self._batch(found - _MAGIC_AT, expected)
            if batch is not None and batch.crc_is_right:
                return found - _MAGIC_AT
            found = self._data.find(_MAGIC, found + 1)
        return len(self._view)

    def _what(self, at: int, end: int, broken: Batch | None) -> Literal["zeros", "torn", "crc", "no batch"]:
        if broken is not None:
            return "crc"
        if end < len(self._view):
            return "no batch"
        if all(not any(self._view[start : start + _CHUNK]) for start in range(at, end, _CHUNK)):
            return "zeros"
        magic = at + _MAGIC_AT
        if magic >= end:
            return "torn"
        size = _PREFIX + int.from_bytes(self._data[at + _LENGTH_AT : at + _PREFIX], "big", signed=True)
        return "torn" if self._data[magic : magic + 1] == _MAGIC and size > end - at else "no batch"

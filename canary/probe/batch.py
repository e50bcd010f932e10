"""Many probes at once, with NumPy.

Same answers as canary.probe.record, column by column. Rows are decoded in blocks that fit the CPU's cache.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.probe import record
from canary.probe.identity import Identity

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

_FIRST: Final = record.HEADER_LENGTH // 8  # the word where padding begins
BLOCK: Final = 2048  # rows of 96 bytes each: 192 KiB, half of a small L2 cache

_FIELDS: Final = {
    "magic": ("<u4", 0),
    "tag": ("<u4", 4),
    "length": ("<u2", 8),
    "version": ("u1", 10),
    "mode": ("u1", 11),
    "partition": ("<i4", 12),
    "checksum": ("<u8", 16),
    "producer_id": ("<i8", 24),
    "sequence": ("<i8", 32),
    "generation": ("<i4", 40),
    "form": ("<u4", 44),
    "transaction_id": ("<i8", 48),
    "sent_at_ns": ("<i8", 56),
}
_NUMBERS: Final = ("mode", *Identity._fields, "transaction_id", "sent_at_ns")
_REPEATED, _HEADERS = np.uint32(1), np.uint32(1 << 8)  # of a form: its lowest byte, and what is above that
_KEY: Final = np.dtype([("producer_id", "<i8"), ("generation", "<i4"), ("partition", "<i4"), ("sequence", "<i8")])
_MAGIC: Final = int.from_bytes(record.MAGIC, "little")
_SEED: Final = np.uint64(record.SEED)
_PRIME: Final = np.uint64(record.PRIME)
_HALF: Final = np.uint64(32)
_KNOWN_MODES: Final = np.isin(np.arange(256), list(record.MODE_NAMES))
_KNOWN_VERSIONS: Final = np.isin(np.arange(256), record.VERSIONS)
_CODES: Final = {refusal: number for number, refusal in enumerate(record.REFUSALS, start=1)}
_STATUS_OF_CODE: Final = np.array(
    [0, *(record.REASONS.index(refusal.reason) + 1 for refusal in record.REFUSALS)], dtype=np.uint8
)


@dataclass(frozen=True, slots=True)
class BinaryBuffers:
    """The buffers of an Arrow binary or large_binary array of n values, as NumPy arrays, without a copy.

    ``data``: uint8. ``offsets``: int32 or int64, n + 1 of them (of a sliced array: its part of the buffer). ``valid``:
    bool, n of them, or None if there is no null.
    """

    data: Bytes
    offsets: NDArray[np.integer[Any]]
    valid: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """Columns of n decoded values; where ``status`` is not INTACT the numbers are -1 and ``mode`` is 0.

    ``status``: INTACT, FOREIGN, CORRUPT or UNKNOWN_VERSION. ``code``: 0, or the refusal ``REFUSALS[code - 1]``.
    ``mode``: a number of MODES. ``tag``: little-endian u32 of the tag, 0 if the magic is not there. ``sent_at_ns``: ns
    since the epoch. ``transaction_id``: -1 outside transactions. ``headers``: whether the record has Kafka headers.
    """

    status: NDArray[np.uint8]
    code: NDArray[np.uint8]
    tag: NDArray[np.uint32]
    mode: NDArray[np.uint8]
    producer_id: NDArray[np.int64]
    generation: NDArray[np.int32]
    partition: NDArray[np.int32]
    sequence: NDArray[np.int64]
    transaction_id: NDArray[np.int64]
    sent_at_ns: NDArray[np.int64]
    headers: NDArray[np.bool_]

    @classmethod
    def refused(cls, rows: int) -> Self:
        """Return columns for so many values, each of them without a value as yet."""
        code = np.full(rows, _CODES[record.EMPTY], dtype=np.uint8)
        return cls(
            status=_STATUS_OF_CODE[code],
            code=code,
            tag=np.zeros(rows, dtype=np.uint32),
            mode=np.zeros(rows, dtype=np.uint8),
            headers=np.zeros(rows, dtype=np.bool_),
            **{name: np.full(rows, -1, dtype=_FIELDS[name][0]) for name in _NUMBERS if name != "mode"},
        )


INTACT, FOREIGN, CORRUPT, UNKNOWN_VERSION = range(4)


def encode_keys(producer_id: ArrayLike, generation: ArrayLike, partition: ArrayLike, sequence: ArrayLike) -> Bytes:
    """Return the Kafka keys of n probes as uint8 of shape (n, 24)."""
    columns = np.broadcast_arrays(producer_id, generation, partition, sequence)
    keys = np.empty(columns[0].size, dtype=_KEY)
    for name, column in zip(_KEY.names or (), columns, strict=True):
        keys[name] = column.ravel()
    return keys.view(np.uint8).reshape(len(keys), _KEY.itemsize)


def encode_batch(  # noqa: PLR0913  # a column each
    producer_id: ArrayLike,
    generation: ArrayLike,
    partition: ArrayLike,
    sequence: ArrayLike,
    *,
    tag: bytes,
    mode: str,
    sent_at_ns: ArrayLike,
    transaction_id: ArrayLike = -1,
    length: int = record.DEFAULT_LENGTH,
    form: record.Form = record.PLAIN,
) -> NDArray[np.uint8]:
    """Return the values of n probes as uint8 of shape (n, length); numbers and arrays of n are broadcast.

    Raises:
        ValueError: the mode is unknown, the length impossible, or a number is negative.
    """
    if mode not in record.MODES:
        raise ValueError(f"unknown mode {mode!r}; known are {', '.join(record.MODES)}")
    record.check_length(length)
    columns = np.broadcast_arrays(
        *(np.asarray(column) for column in (producer_id, generation, partition, sequence, transaction_id, sent_at_ns)),
    )
    names = ("producer_id", "generation", "partition", "sequence", "transaction_id", "sent_at_ns")
    for name, column, least in zip(names, columns, (0, 0, 0, 0, -1, None), strict=True):
        most = np.iinfo(np.dtype(_FIELDS[name][0])).max
        if column.size and ((least is not None and column.min() < least) or column.max() > most):
            raise ValueError(f"a {name} is out of range")
    rows = np.zeros((columns[0].size, length), dtype=np.uint8)
    fields = rows.view(_wire(length))[:, 0]
    fields["magic"] = _MAGIC
    fields["tag"] = int.from_bytes(tag, "little")
    fields["length"] = length
    fields["version"] = record.version_of(form)
    fields["form"] = int.from_bytes(struct.pack("<BBH", *form), "little")
    fields["mode"] = record.MODES[mode]
    for name, column in zip(names, columns, strict=True):
        fields[name] = column.ravel()
    words = rows.view("<u8")
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        _write_padding(fields[block], words[block], repeated=form.repeated)
        fields["checksum"][block] = _checksum(words[block])
    return rows


def as_bytes(rows: NDArray[np.uint8]) -> list[bytes]:
    """Return the rows of encode_batch or encode_keys as one ``bytes`` each."""
    width = rows.shape[1]
    flat = np.ascontiguousarray(rows).tobytes()
    return [flat[at : at + width] for at in range(0, len(flat), width)]


def decode_batch(values: Sequence[bytes | None] | BinaryBuffers, tag: bytes | None) -> Decoded:
    """Return what n values say, in the order given. Never raises for the content of a value.

    Args:
        values: the values themselves, or the buffers of an Arrow array of them.
        tag: ours; None takes any (``Decoded.tag`` has each one's).
    """
    buffers = values if isinstance(values, BinaryBuffers) else _gathered(values)
    offsets = np.asarray(buffers.offsets, dtype=np.int64)
    starts = offsets[:-1]
    lengths = np.diff(offsets)
    if buffers.valid is not None:
        lengths = np.where(buffers.valid, lengths, 0)
    decoded = Decoded.refused(len(starts))
    known = None if tag is None else int.from_bytes(tag, "little")
    for length in np.unique(lengths).tolist():
        if length == 0:
            continue
        everything = length * len(starts) == offsets[-1] - offsets[0] and bool((lengths == length).all())
        places = None if everything else np.flatnonzero(lengths == length)
        count = len(starts) if places is None else len(places)
        possible = record.SHORTEST <= length <= record.LONGEST and length % 8 == 0
        width = length if possible else min(length, 8)  # of what can be no probe, only whose it would be matters
        block = max(1, BLOCK * record.DEFAULT_LENGTH // width)
        for begin in range(0, count, block):
            end = min(begin + block, count)
            if places is None and possible:
                at: slice | NDArray[np.int64] = slice(begin, end)
                rows = buffers.data[starts[begin] : starts[begin] + (end - begin) * length].reshape(-1, length)
            else:
                at = np.arange(begin, end) if places is None else places[begin:end]
                rows = np.lib.stride_tricks.sliding_window_view(buffers.data, width)[starts[at]]
            _decode_rows(rows, known, decoded, at)
    decoded.status[:] = _STATUS_OF_CODE[decoded.code]
    return decoded


@lru_cache(maxsize=64)
def _wire(length: int) -> np.dtype[np.void]:
    """Return the layout of a value of that length, as far as it reaches."""
    formats = {name: field for name, field in _FIELDS.items() if field[1] + np.dtype(field[0]).itemsize <= length}
    return np.dtype(
        {
            "names": list(formats),
            "formats": [kind for kind, _ in formats.values()],
            "offsets": [offset for _, offset in formats.values()],
            "itemsize": length,
        }
    )


def _gathered(values: Sequence[bytes | None]) -> BinaryBuffers:
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum([len(value) if value else 0 for value in values], out=offsets[1:])
    return BinaryBuffers(np.frombuffer(b"".join(value for value in values if value), dtype=np.uint8), offsets)


def _decode_rows(rows: Bytes, tag: int | None, decoded: Decoded, at: slice | NDArray[np.int64]) -> None:
    """Write what rows of one length say into ``decoded`` at the places ``at``."""
    count, length = rows.shape
    if length < 8:
        decoded.code[at] = _CODES[record.OTHER_MAGIC]
        return
    fields = rows.view(_wire(length))[:, 0]
    magic = fields["magic"] == _MAGIC
    decoded.tag[at] = np.where(magic, fields["tag"], 0)
    code = np.zeros(count, dtype=np.uint8)
    checks: list[tuple[record.Refusal, NDArray[np.bool_]]] = [(record.OTHER_MAGIC, ~magic)]
    if tag is not None:
        checks.append((record.OTHER_TAG, fields["tag"] != tag))
    if length < record.SHORTEST:
        checks.append((record.WRONG_LENGTH, np.ones(count, dtype=np.bool_)))
    else:
        words = np.ascontiguousarray(rows.view("<u8").T).T  # each column in one piece: twice as fast to fold
        checks += [
            (record.WRONG_LENGTH, fields["length"] != length),
            (record.WRONG_CHECKSUM, fields["checksum"] != _checksum(words)),
            (record.UNKNOWN_VERSION, ~_KNOWN_VERSIONS[fields["version"]]),
            (record.UNKNOWN_MODE, ~_KNOWN_MODES[fields["mode"]]),
        ]
        if length < record.HEADER_LENGTH:
            checks.append((record.WRONG_LENGTH, np.ones(count, dtype=np.bool_)))
        else:
            checks += [(record.WRONG_SHAPE, _misshapen(fields)), (record.WRONG_PADDING, _mispadded(fields, words))]
    for refusal, failed in reversed(checks):  # the first check that fails has the last word
        code[failed] = _CODES[refusal]
    decoded.code[at] = code
    intact = code == 0
    if intact.all():
        decoded.headers[at] = fields["form"] >= _HEADERS
        for name in _NUMBERS:
            getattr(decoded, name)[at] = fields[name]
    elif intact.any():
        kept = np.arange(count)[intact] + at.start if isinstance(at, slice) else at[intact]
        decoded.headers[kept] = fields["form"][intact] >= _HEADERS
        for name in _NUMBERS:
            getattr(decoded, name)[kept] = fields[name][intact]


def _misshapen(fields: NDArray[np.void]) -> NDArray[np.bool_]:
    form = fields["form"]
    wrong: NDArray[np.bool_] = (form & 0xFF > _REPEATED) | ((form != 0) & (fields["version"] == record.PLAIN_VERSION))
    for name in Identity._fields:
        wrong |= fields[name] < 0
    wrong |= fields["transaction_id"] < -1
    return wrong


def _mispadded(fields: NDArray[np.void], words: Words) -> NDArray[np.bool_]:
    wrong = np.zeros(len(words), dtype=np.bool_)
    start = _padding_start(fields)
    repeated = fields["form"] & 0xFF == _REPEATED
    step = (~repeated).astype(np.uint64) if repeated.any() else None
    for i in range(_FIRST, words.shape[1]):
        wrong |= words[:, i] != _padding_word(start, i, step)
    return wrong


def _padding_start(fields: NDArray[np.void]) -> Words:
    return _fold(len(fields), (fields[name].astype(np.uint64) for name in Identity._fields))


def _padding_word(start: Words, word: int, step: Words | None = None) -> Words:
    """Return the padding at a word; where ``step`` is 0, and not 1, it is that of the first one."""
    gamma, number = np.uint64(record.GAMMA), word - _FIRST
    further = np.uint64((number + 1) * record.GAMMA & record.MASK)
    value = start + (further if step is None else gamma * (step * np.uint64(number) + np.uint64(1)))
    value *= _PRIME
    value ^= value >> _HALF
    return value


def _checksum(words: Words) -> Words:
    return _fold(len(words), (words[:, i] for i in range(1, words.shape[1]) if i != 2))


def _fold(rows: int, words: Iterable[Words]) -> Words:
    h = np.full(rows, _SEED)
    for word in words:
        h ^= word
        h *= _PRIME
        h ^= h >> _HALF
    return h


def _write_padding(fields: NDArray[np.void], words: NDArray[np.uint64], *, repeated: bool) -> None:
    start = _padding_start(fields)
    for i in range(_FIRST, words.shape[1]):
        words[:, i] = _padding_word(start, _FIRST if repeated else i)

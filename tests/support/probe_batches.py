"""Very many probes encoded at once, with NumPy: fixtures of millions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from canary.probe import batch, record

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def encode_batch(  # noqa: PLR0913  # a column each
    *,
    producer_id: ArrayLike,
    generation: ArrayLike,
    partition: ArrayLike,
    sequence: ArrayLike,
    tag: bytes,
    mode: str,
    sent_at_ns: ArrayLike,
    transaction_id: ArrayLike = -1,
    length: int = record.DEFAULT_LENGTH,
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
        most = np.iinfo(np.dtype(batch._FIELDS[name][0])).max
        if column.size and ((least is not None and column.min() < least) or column.max() > most):
            raise ValueError(f"a {name} is out of range")
    rows = np.zeros((columns[0].size, length), dtype=np.uint8)
    fields = rows.view(batch._wire(length))[:, 0]
    fields["magic"] = batch._MAGIC
    fields["tag"] = int.from_bytes(tag, "little")
    fields["length"] = length
    fields["version"] = record.VERSION
    fields["mode"] = record.MODES[mode]
    for name, column in zip(names, columns, strict=True):
        fields[name] = column.ravel()
    words = rows.view("<u8")
    for start in range(0, len(rows), batch.BLOCK):
        block = slice(start, start + batch.BLOCK)
        _write_padding(fields[block], words[block])
        fields["checksum"][block] = batch._checksum(words[block])
    return rows


def _write_padding(fields: NDArray[np.void], words: NDArray[np.uint64]) -> None:
    start = batch._padding_start(fields)
    for i in range(record.HEADER_LENGTH // 8, words.shape[1]):
        words[:, i] = batch._padding_word(start, i)


def as_bytes(rows: NDArray[np.uint8]) -> list[bytes]:
    """Return the rows of encode_batch or encode_keys as one ``bytes`` each."""
    width = rows.shape[1]
    flat = np.ascontiguousarray(rows).tobytes()
    return [flat[at : at + width] for at in range(0, len(flat), width)]

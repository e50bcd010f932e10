"""Histories from files: JSON Lines and EDN, whole or streamed."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO

import orjson

from canary.history import edn
from canary.history.columns import History
from canary.history.errors import HistoryError
from canary.history.exploding import Batch, Exploder
from canary.history.lifting import lift

CHUNK = 1 << 16
"""Bytes parsed at a time: what comes of them fits the processor's cache (a megabyte costs a third more)."""

Progress = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


def load(file: BinaryIO, source: str, progress: Progress | None = None) -> History:
    """Return the history in ``file`` (need not be seekable), JSON Lines or EDN, whichever it is.

    ``source`` is its name, for errors.

    Raises:
        HistoryError: it cannot be read; says where and why.
    """
    head = _head(file)
    exploder = Exploder(source)
    batches = _edn_batches if _is_edn(head) else _json_batches
    with _no_garbage_collection():
        for batch in batches(_chunks(file, head, progress), source):
            exploder.add(batch)
        return exploder.finish()


def load_stretch(file: BinaryIO, source: str, start: int, end: int) -> tuple[History, int]:
    """Return what begins in [start, end) of a JSON Lines file, and how many lines that is.

    Lines are counted from the first that begins there; ``invocation`` is not filled in.

    Raises:
        HistoryError: it cannot be read; its line is counted likewise.
    """
    file.seek(max(0, start - 1))
    if start > 0:
        file.readline()  # the rest of a line that begins before
    exploder = Exploder(source)
    at = file.tell()
    lines = 0
    with _no_garbage_collection():
        while at < end and (block := file.read(min(CHUNK, end - at))):
            if not block.endswith(b"\n"):
                block += file.readline()
            at += len(block)
            exploder.add(_batch(block.rstrip(b"\n"), lines + 1, source))
            lines += block.count(b"\n")
    return exploder.finish(whole=False), lines


def _head(file: BinaryIO) -> bytes:
    """Return the beginning of the file, up to something that is no white space."""
    head = more = file.read(CHUNK)
    while more and not head.strip():
        more = file.read(CHUNK)
        head += more
    return head


def _is_edn(head: bytes) -> bool:
    """Distinguish Jepsen's EDN from JSON by its first characters."""
    start = head.lstrip()
    if start[:1] in (b"[", b"("):
        start = start[1:].lstrip()
        return start[:1] != b"{" or start[1:].lstrip()[:1] not in (b'"', b"}")
    return start[:1] in (b"#", b";") or (start[:1] == b"{" and start[1:].lstrip()[:1] == b":")


def _chunks(file: BinaryIO, head: bytes, progress: Progress | None) -> Iterator[bytes]:
    """Yield the file's bytes, starting with ``head``, which was read already."""
    chunk = head
    while chunk:
        if progress:
            progress(len(chunk))
        yield chunk
        chunk = file.read(CHUNK)


def _json_batches(chunks: Iterator[bytes], source: str) -> Iterator[Batch]:
    """Yield a batch for each chunk of JSON Lines."""
    line = 1
    rest: list[bytes] = []
    for chunk in chunks:
        end = chunk.rfind(b"\n")
        if end < 0:
            rest.append(chunk)
            continue
        block = b"".join((*rest, chunk[:end]))
        rest = [chunk[end + 1 :]]
        yield _batch(block, line, source)
        line += block.count(b"\n") + 1
    last = b"".join(rest)
    if last.strip():
        yield _batch(last, line, source)


def _batch(block: bytes, first: int, source: str) -> Batch:
    """Parse some lines, most of what was polled apart from the rest."""

    def again() -> tuple[Sequence[Any], Sequence[int]]:
        return _parse(block.split(b"\n"), first, source)

    light = lift(block)
    if light is not None:
        lines = light[0].split(b"\n")
        operations = _together(lines)
        if len(operations) == len(lines):
            return Batch(operations, range(first, first + len(lines)), again, light[1])
    return Batch(*again(), again)


def _parse(lines: list[bytes], first: int, source: str) -> tuple[Sequence[Any], Sequence[int]]:
    """Parse some lines at once; where that fails, one by one, to find the one that is wrong."""
    numbers: Sequence[int] = range(first, first + len(lines))
    if b"" in lines or b"\r" in lines:
        kept = [place for place, text in enumerate(lines) if text.strip()]
        lines, numbers = [lines[i] for i in kept], [first + i for i in kept]
    operations = _together(lines)
    if len(operations) == len(lines):
        return operations, numbers
    operations, kept_numbers = [], []
    for number, text in zip(numbers, lines, strict=True):
        if not text.strip():
            continue
        try:
            operations.append(orjson.loads(text))
        except orjson.JSONDecodeError as error:
            raise HistoryError(source, number, f"not JSON: {error}") from None
        kept_numbers.append(number)
    return operations, kept_numbers


def _together(lines: Sequence[bytes]) -> list[Any]:
    """Parse some lines at once; not one operation a line if one of them is odd."""
    try:
        operations: list[Any] = orjson.loads(b"[%b]" % b",".join(lines))
    except orjson.JSONDecodeError:
        return []
    return operations


def _edn_batches(chunks: Iterator[bytes], source: str) -> Iterator[Batch]:
    """Yield batches of some thousand operations."""
    parsed = edn.operations(chunks, source)
    while some := list(islice(parsed, 4096)):
        operations, lines = [operation for operation, _ in some], [line for _, line in some]
        yield Batch(operations, lines, lambda o=operations, n=lines: (o, n))  # type: ignore[misc]


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Do not let the collector walk through what is parsed, over and over: there are no cycles in it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

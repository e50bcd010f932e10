"""Files and directories in memory, with what of them is durable.

A file has a cached content, which processes see and which survives them, and a durable one, which survives a power cut.
What was written or cut off since the last fsync is dirty. A directory's names work the same way: what was made, renamed
or deleted since its last fsync is dirty. A power cut keeps of the dirty changes what its dice say: of a file the
first ones, of which the last may be torn at any byte; of a directory the first ones, or any.
"""

import errno
import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

Backup = Mapping[str, "bytes | Backup"]
"""What is in a directory, by name."""
PAGE = 4096
"""Bytes that reach the platter together."""


class File:
    """``dirty``: pieces that were written, with their offsets, and sizes to which the file was cut, in their order."""

    __slots__ = ("cached", "dirty", "durable", "links")

    def __init__(self, content: bytes = b"") -> None:
        self.cached = bytearray(content)
        self.durable = bytearray(content)
        self.dirty: list[tuple[int, bytes] | int] = []
        self.links = 0

    def change(self, change: tuple[int, bytes] | int) -> None:
        """Write a piece, or cut the file to a size."""
        _apply(self.cached, change)
        self.dirty.append(change)

    def sync(self) -> None:
        """Make every change durable."""
        for change in self.dirty:
            _apply(self.durable, change)
        self.dirty.clear()

    def fail_to_sync(self, dice: random.Random) -> None:
        """The kernel keeps the dirty pages for the next fsync, or takes them for clean, or forgets them, too."""
        fate = dice.randrange(3)
        if fate:
            self._sync_part(dice)
        if fate == 2:
            self.cached = bytearray(self.durable)

    def lose(self, dice: random.Random, *, shuffled: bool) -> None:
        """Keep what is durable, and of the dirty changes what the dice say."""
        if shuffled and self.dirty:
            pages = [page for change in self.dirty for page in _pages(change)]
            self.dirty = [page for page in pages if dice.random() < 0.5]
            self.sync()
        else:
            self._sync_part(dice)
        self.cached = bytearray(self.durable)

    def _sync_part(self, dice: random.Random) -> None:
        kept = dice.randrange(len(self.dirty) + 1)
        torn = self.dirty[kept] if kept < len(self.dirty) else 0
        del self.dirty[kept:]
        if not isinstance(torn, int):
            self.dirty.append((torn[0], torn[1][: dice.randrange(len(torn[1]))]))
        self.sync()


class Directory:
    """``dirty``: what became of names since the last fsync, in its order; None: the name is gone."""

    __slots__ = ("cached", "dirty", "durable")

    def __init__(self) -> None:
        self.cached: dict[str, File | Directory] = {}
        self.durable: dict[str, File | Directory] = {}
        self.dirty: list[dict[str, File | Directory | None]] = []

    def change(self, change: "dict[str, File | Directory | None]") -> None:
        """Change names, all of them or none."""
        for name, node in change.items():
            before = self.cached.get(name)
            if isinstance(before, File):
                before.links -= 1
            if isinstance(node, File):
                node.links += 1
        _rename(self.cached, change)
        self.dirty.append(change)

    def sync(self) -> None:
        """Make every change of names durable."""
        for change in self.dirty:
            _rename(self.durable, change)
        self.dirty.clear()

    def lose(self, dice: random.Random, *, shuffled: bool) -> None:
        """Keep what is durable, and of the dirty changes what the dice say; the same for all that is inside."""
        if dice.random() < 0.5:
            self.dirty = self.dirty[: dice.randrange(len(self.dirty) + 1)]
        else:
            self.dirty = [change for change in self.dirty if dice.random() < 0.5]
        self.sync()
        self.cached = dict(self.durable)
        for node in self.cached.values():
            node.lose(dice, shuffled=shuffled)


class Tree:
    """The directory ``root``, and all that is in it, by path."""

    def __init__(self) -> None:
        self.root = Directory()

    def find(self, path: Path) -> File | Directory | None:
        """Return what is there, None if nothing is."""
        node: File | Directory | None = self.root
        for name in path.parts[1:]:
            if not isinstance(node, Directory):
                return None
            node = node.cached.get(name)
        return node

    def present(self, path: Path) -> File | Directory:
        """Return what is there, or raise OSError."""
        node = self.find(path)
        if node is None:
            raise error_of(errno.ENOENT, path)
        return node

    def file(self, path: Path) -> File:
        """Return the file that is there, or raise OSError."""
        node = self.present(path)
        if isinstance(node, Directory):
            raise error_of(errno.EISDIR, path)
        return node

    def directory(self, path: Path) -> Directory:
        """Return the directory that is there, or raise OSError."""
        node = self.present(path)
        if isinstance(node, File):
            raise error_of(errno.ENOTDIR, path)
        return node

    def make(self, path: Path) -> Directory:
        """Return the directory that is there, made with its parents if it was not."""
        node = self.root
        for name in path.parts[1:]:
            inner = node.cached.get(name)
            if inner is None:
                node.change({name: (inner := Directory())})
            if isinstance(inner, File):
                raise error_of(errno.EEXIST, path)
            node = inner
        return node


def error_of(number: int, path: Path) -> OSError:
    """Return an error as the operating system raises it."""
    return OSError(number, os.strerror(number), str(path))


def _apply(content: bytearray, change: tuple[int, bytes] | int) -> None:
    """Write a piece, or cut the content off; what lies between its end and the piece is zeros."""
    size = change if isinstance(change, int) else change[0]
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    if isinstance(change, int):
        del content[size:]
    else:
        content[size : size + len(change[1])] = change[1]


def _pages(change: tuple[int, bytes] | int) -> Iterator[tuple[int, bytes] | int]:
    """Yield a change by pages."""
    if isinstance(change, int):
        yield change
        return
    start, data = change
    while data:
        size = PAGE - start % PAGE
        yield start, data[:size]
        start, data = start + size, data[size:]


def _rename(names: "dict[str, File | Directory]", change: "dict[str, File | Directory | None]") -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def files_of(directory: Directory) -> Iterator[File]:
    """Yield each file once for each of its names."""
    for node in directory.cached.values():
        if isinstance(node, File):
            yield node
        else:
            yield from files_of(node)


def copied(directory: Directory) -> Backup:
    """Return a copy of all that is in a directory."""
    return {
        name: bytes(node.cached) if isinstance(node, File) else copied(node) for name, node in directory.cached.items()
    }


def made(content: "bytes | Backup") -> File | Directory:
    """Return a file or a directory with this content, which is durable within it."""
    if isinstance(content, bytes):
        return File(content)
    directory = Directory()
    directory.change({name: made(inner) for name, inner in content.items()})
    directory.sync()
    return directory

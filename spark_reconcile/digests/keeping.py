"""The trees that are kept of a cluster: a manifest, and a file for each chunk of leaves.

``tree.json`` has each partition's offsets, counts, root and chunks; ``leaves/`` the chunks. A run writes chunks under
new names, and only the manifest, which is put in place whole, makes them part of the tree: a run that is killed has
changed nothing. Files that no manifest names are removed by the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import fsspec.core
import numpy as np
import orjson
import pyarrow as pa

from spark_reconcile.digests.reading import Place
from spark_reconcile.digests.tree import BITS, CHUNK, Leaves
from spark_reconcile.errors import BadInputError
from spark_reconcile.tables.writing import Folder, PartStream, read_part

VERSION: Final = 1
_MANIFEST: Final = "tree.json"
_LEAVES: Final = "leaves"
_SCHEMA: Final = pa.schema([(name, pa.int64()) for name in ("leaf", "mask", "hash", "keys", "bytes", "read_at")])
_OFFSETS: Final = CHUNK << BITS


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a partition: its file, and what its leaves sum up to (`Leaves`); ``root`` is the XOR of them."""

    file: str
    records: int
    keys: int
    bytes: int
    root: int
    read_at_ns: int


@dataclass(frozen=True, slots=True)
class Tree:
    """What is known of a partition: offsets [start, end), by chunk; ``epoch``: no record has a later leader epoch."""

    topic: str
    topic_id: str | None
    partition: int
    start: int
    end: int
    chunks: dict[int, Chunk] = field(default_factory=dict)
    epoch: int | None = None

    @property
    def place(self) -> Place:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def records(self) -> int:
        """How many records its leaves have; some of the first leaves' may have expired."""
        return sum(chunk.records for chunk in self.chunks.values())

    @property
    def root(self) -> int:
        """The hash of the partition: the XOR of its chunks'."""
        root = 0
        for chunk in self.chunks.values():
            root ^= chunk.root
        return root

    @property
    def oldest_ns(self) -> int | None:
        """When the part of it was read that was not read for longest; None: it has no record."""
        return min((chunk.read_at_ns for chunk in self.chunks.values()), default=None)


@dataclass(frozen=True, slots=True)
class Trees:
    """All trees of a cluster. ``succeeded_ns``: when a run last could read all partitions; None: never."""

    at_ns: int
    succeeded_ns: int | None
    trees: dict[Place, Tree]


class Kept:
    """The folder of a cluster's trees, on a disk or at a URL; who only compares has new chunks in ``scratch``.

    Raises:
        BadInputError: it cannot be read, or is of a later release.
    """

    def __init__(self, url: str, scratch: str | None = None) -> None:
        self._folder = Folder(url)
        self._scratch = scratch
        self._new: set[str] = set()
        self._fs, self._root = fsspec.core.url_to_fs(self._folder.url)
        self.trees = self._load()
        """What is kept; None: nothing yet."""

    def leaves(self, tree: Tree, start: int, end: int) -> Leaves:
        """Return the leaves of a tree that have an offset in [start, end)."""
        found = Leaves.none()
        for number in range_of(start, end):
            if number in tree.chunks:
                found = found.joined(self.chunk(tree.chunks[number]).between(start, end))
        return found

    def last_below(self, tree: Tree, end: int) -> int | None:
        """Return the number of the last leaf with a record that has an offset below ``end``; None: there is none."""
        for number in sorted(tree.chunks, reverse=True):
            if number * _OFFSETS < end and (last := self.chunk(tree.chunks[number]).last_below(end)) is not None:
                return last
        return None

    def replaced(self, tree: Tree, start: int, end: int, leaves: Leaves) -> Tree:
        """Write leaves in place of those of [start, end); return the tree that has them."""
        return self._with(tree, leaves, lambda old, new: old.replaced(new, start, end), range_of(start, end))

    def retained(self, tree: Tree, start: int) -> Tree:
        """Return the tree that begins at ``start``: without the leaves of which everything has expired."""
        if start <= tree.start:
            return tree
        chunks = {number: one for number, one in tree.chunks.items() if (number + 1) * _OFFSETS > start}
        low = start >> BITS << BITS
        return self.replaced(replace(tree, start=start, chunks=chunks), low // _OFFSETS * _OFFSETS, low, Leaves.none())

    def joined(self, tree: Tree, leaves: Leaves) -> Tree:
        """Write leaves of records that the tree does not have; return the tree that has them."""
        return self._with(tree, leaves, Leaves.joined, ())

    def save(self, trees: Trees) -> None:
        """Keep trees instead of those before, and remove the files of chunks that nobody names."""
        rows = [
            asdict(one) | {"chunks": [[n, asdict(c)] for n, c in one.chunks.items()]} for one in trees.trees.values()
        ]
        document = {"version": VERSION, "at_ns": trees.at_ns, "succeeded_ns": trees.succeeded_ns, "trees": rows}
        self._fs.makedirs(self._root, exist_ok=True)
        self._folder.text(_MANIFEST, orjson.dumps(document))
        self.trees = trees
        self.clean()

    def clean(self) -> None:
        """Remove the files of chunks that the kept manifest does not name."""
        folder = f"{self._root}/{_LEAVES}"
        if not self._fs.exists(folder):
            return
        trees = self.trees.trees.values() if self.trees is not None else ()
        named = {chunk.file for tree in trees for chunk in tree.chunks.values()}
        for path in self._fs.ls(folder, detail=False):
            if path.rsplit("/", 1)[-1] not in named:
                self._fs.rm(path)

    def _load(self) -> Trees | None:
        path = f"{self._root}/{_MANIFEST}"
        try:
            if not self._fs.exists(path):
                return None
            with self._fs.open(path, "rb") as file:
                document: dict[str, Any] = orjson.loads(file.read())
            if document["version"] != VERSION:
                raise BadInputError(f"{self._folder.url}/{_MANIFEST}", "a later release wrote it", "upgrade this one")
            trees = [_tree(row) for row in document["trees"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = f"it cannot be read ({' '.join(str(error).split())[:200]})"
            remedy = "mend it, or remove it with the folder leaves/: digests begin anew"
            raise BadInputError(f"{self._folder.url}/{_MANIFEST}", why, remedy) from error
        return Trees(document["at_ns"], document["succeeded_ns"], {tree.place: tree for tree in trees})

    def chunk(self, chunk: Chunk) -> Leaves:
        """Return the leaves of a chunk."""
        folder = self._written_to if chunk.file in self._new else f"{self._folder.url}/{_LEAVES}"
        try:
            table = read_part(folder, chunk.file)
        except (OSError, pa.ArrowInvalid) as error:
            remedy = f"remove {_MANIFEST} with the folder leaves/: digests begin anew"
            raise BadInputError(f"{folder}/{chunk.file}", "it cannot be read", remedy) from error
        leaf, mask, *others = (table.column(name).to_numpy() for name in _SCHEMA.names)
        return Leaves(leaf, mask.view(np.uint64), *others)

    def _with(
        self, tree: Tree, leaves: Leaves, put: Callable[[Leaves, Leaves], Leaves], touched: Iterable[int]
    ) -> Tree:
        chunks = dict(tree.chunks)
        new = dict(leaves.chunks())
        for number in sorted({*touched, *new}):
            old = self.chunk(chunks[number]) if number in chunks else Leaves.none()
            both = put(old, new.get(number, Leaves.none()))
            chunks.pop(number, None)
            if len(both):
                chunks[number] = self._written(both)
        return replace(tree, chunks=chunks)

    def _written(self, leaves: Leaves) -> Chunk:
        fs, root = fsspec.core.url_to_fs(self._written_to)
        fs.makedirs(root, exist_ok=True)
        stream = PartStream(self._written_to, _SCHEMA, ("leaf", "hash", "bytes"))
        columns = [leaves.leaf, leaves.mask.view(np.int64), leaves.hash, leaves.keys, leaves.bytes, leaves.read_at]
        stream.write(pa.table(columns, schema=_SCHEMA))
        sums = leaves.count, int(leaves.keys.sum()), int(leaves.bytes.sum()), leaves.root
        file, _ = stream.close()
        self._new.add(file)
        return Chunk(file, *sums, int(leaves.read_at.min()))

    @property
    def _written_to(self) -> str:
        return self._scratch or f"{self._folder.url}/{_LEAVES}"


def range_of(start: int, end: int) -> range:
    """Return the numbers of the chunks that have an offset in [start, end)."""
    return range(start // _OFFSETS, -(-end // _OFFSETS)) if end > start else range(0)


def _tree(row: dict[str, Any]) -> Tree:
    return Tree(**row | {"chunks": {number: Chunk(**chunk) for number, chunk in row["chunks"]}})

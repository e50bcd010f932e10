"""The trees that are kept of a cluster: a manifest, and a file for each chunk of leaves.

``tree.json`` has each partition's offsets, counts, root and chunks; ``leaves/`` the chunks. A run writes chunks under
new names, and only the manifest, which is put in place whole, makes them part of the tree: a run that is killed has
changed nothing. Files that no manifest names are removed by the next run.

What was damaged is not compared with: the leaves of a file have to be those that the manifest has a checksum of. Of two
runs at once the second to end keeps nothing, as the first has removed files that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

import fsspec.core
import numpy as np
import orjson
import pyarrow as pa
from xxhash import xxh64

from spark_reconcile.digests.reading import Place
from spark_reconcile.digests.tree import BITS, CHUNK, Leaves
from spark_reconcile.errors import BadInputError
from spark_reconcile.tables.writing import Folder, PartStream, read_part
from storage.probe_log.shipping import one_line

VERSION: Final = 1
_MANIFEST: Final = "tree.json"
_LEAVES: Final = "leaves"
_SCHEMA: Final = pa.schema([(name, pa.int64()) for name in ("leaf", "mask", "hash", "keys", "bytes", "read_at")])
_OFFSETS: Final = CHUNK << BITS
_NEVER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a partition: its file, and what its leaves sum up to (`Leaves`).

    ``root`` is the XOR of their hashes, ``checksum`` the XXH64 of all that is kept of them.
    """

    file: str
    records: int
    keys: int
    bytes: int
    root: int
    read_at_ns: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Tree:
    """What is known of a partition: offsets [start, end), by chunk.

    ``compacted``: below this offset compaction may have removed records since they were read. ``absent_ns``: since when
    its topic is not there. ``epoch``: no record has a later leader epoch; None: that is not known.
    """

    topic: str
    topic_id: str | None
    partition: int
    start: int
    end: int
    chunks: dict[int, Chunk] = field(default_factory=dict)
    compacted: int = 0
    absent_ns: int | None = None
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
        BadInputError: it cannot be read or written, or is of a later release.
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
        """Return the tree that begins at ``start``: without the leaves whose records have all expired."""
        if start <= tree.start:
            return tree
        first, within = divmod(start, _OFFSETS)
        chunks = {number: one for number, one in tree.chunks.items() if number >= first}
        rest = replace(tree, start=start, chunks=chunks)
        return self._with(rest, Leaves.none(), lambda old, _: old.retained(start), [first] if within else ())

    def joined(self, tree: Tree, leaves: Leaves) -> Tree:
        """Write leaves of records that the tree does not have; return the tree that has them."""
        return self._with(tree, leaves, Leaves.joined, ())

    def save(self, trees: Trees) -> None:
        """Keep trees instead of those before, and remove the files of chunks that nobody names.

        Raises:
            BadInputError: the folder cannot be written, or another run has replaced what it has.
        """
        if self._load() != self.trees:
            raise self._replaced()
        rows = [
            asdict(one) | {"chunks": [[n, asdict(c)] for n, c in one.chunks.items()]} for one in trees.trees.values()
        ]
        document = {"version": VERSION, "at_ns": trees.at_ns, "succeeded_ns": trees.succeeded_ns, "trees": rows}
        with self._written_to(self._folder.url):
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
                with suppress(FileNotFoundError):  # another run was faster
                    self._fs.rm(path)

    def _load(self) -> Trees | None:
        path = f"{self._root}/{_MANIFEST}"
        try:
            if not self._fs.exists(path):
                return None
            with self._fs.open(path, "rb") as file:
                document: dict[str, Any] = orjson.loads(file.read())
            later = document["version"] != VERSION
            trees = [_tree(row) for row in ([] if later else document["trees"])]
        except Exception as error:  # every fsspec back end raises its own kinds
            why = f"it cannot be read ({one_line(error)})"
            remedy = f"mend it, or remove it with the folder {_LEAVES}/: digests begin anew"
            raise BadInputError(f"{self._folder.url}/{_MANIFEST}", why, remedy) from error
        if later:
            raise BadInputError(f"{self._folder.url}/{_MANIFEST}", "a later release wrote it", "upgrade this one")
        return Trees(document["at_ns"], document["succeeded_ns"], {tree.place: tree for tree in trees})

    def chunk(self, chunk: Chunk) -> Leaves:
        """Return the leaves of a chunk.

        Raises:
            BadInputError: its file cannot be read, or is damaged, or was replaced meanwhile.
        """
        folder = self._chunks if chunk.file in self._new else f"{self._folder.url}/{_LEAVES}"
        try:
            table = read_part(folder, chunk.file)
            leaf, mask, *others = (table.column(name).to_numpy() for name in _SCHEMA.names)
            leaves = Leaves(leaf, mask.view(np.uint64), *others)
            whole = _sums(chunk.file, leaves) == chunk
        except Exception as error:  # Arrow and every fsspec back end raise their own kinds
            if self._load() != self.trees:
                raise self._replaced() from error
            raise _damaged(f"{folder}/{chunk.file}", f"it cannot be read ({one_line(error)})") from error
        if not whole:
            raise _damaged(f"{folder}/{chunk.file}", "it is damaged: its leaves are not those that were written")
        return leaves

    def _replaced(self) -> BadInputError:
        return BadInputError(self._folder.url, "another run has replaced these digests meanwhile", "do it again")

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
        columns = [leaves.leaf, leaves.mask.view(np.int64), leaves.hash, leaves.keys, leaves.bytes, leaves.read_at]
        with self._written_to(self._chunks):
            stream = PartStream(self._chunks, _SCHEMA, ("leaf", "hash", "bytes"))
            stream.write(pa.table(columns, schema=_SCHEMA))
            file, _ = stream.close()
        self._new.add(file)
        return _sums(file, leaves)

    @property
    def _chunks(self) -> str:
        """Where new chunks are written."""
        return self._scratch or f"{self._folder.url}/{_LEAVES}"

    @contextmanager
    def _written_to(self, folder: str) -> Iterator[None]:
        """Make a folder, and say what is wrong if it cannot be written."""
        try:
            fs, root = fsspec.core.url_to_fs(folder)
            fs.makedirs(root, exist_ok=True)
            yield
        except Exception as error:  # every fsspec back end raises its own kinds
            raise BadInputError(folder, f"it cannot be written ({one_line(error)})") from error


def _damaged(file: str, what: str) -> BadInputError:
    return BadInputError(file, what, f"remove {_MANIFEST} with the folder {_LEAVES}/: digests begin anew")


def _sums(file: str, leaves: Leaves) -> Chunk:
    """Return what is kept of a chunk besides its file."""
    keys, size, read_at_ns = int(leaves.keys.sum()), int(leaves.bytes.sum()), int(leaves.read_at.min(initial=_NEVER))
    checksum = xxh64()
    for one in fields(leaves):
        checksum.update(np.ascontiguousarray(getattr(leaves, one.name)).data)
    return Chunk(file, leaves.count, keys, size, leaves.root, read_at_ns, checksum.intdigest())


def range_of(start: int, end: int) -> range:
    """Return the numbers of the chunks that have an offset in [start, end)."""
    return range(start // _OFFSETS, -(-end // _OFFSETS)) if end > start else range(0)


def by_chunk(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield [start, end) in parts of which each is within a chunk."""
    for number in range_of(start, end):
        yield max(start, number * _OFFSETS), min(end, (number + 1) * _OFFSETS)


def _tree(row: dict[str, Any]) -> Tree:
    return Tree(**row | {"chunks": {number: Chunk(**chunk) for number, chunk in row["chunks"]}})

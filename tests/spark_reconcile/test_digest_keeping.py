"""What is kept of digests: damage is said and never compared with, and of two runs at once only one keeps its trees."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from spark_reconcile.digests import rereading
from spark_reconcile.digests.keeping import Kept, Tree, Trees
from spark_reconcile.digests.tree import CHUNK, LEAF, Leaves
from spark_reconcile.errors import BadInputError
from tests.support.seeds import cases

if TYPE_CHECKING:
    from pathlib import Path


def leaves(numbers: range, read_at: int = 7) -> Leaves:
    """Return leaves that are full, with any hashes."""
    one = np.array(numbers, dtype=np.int64)
    full = np.full(len(one), 2**64 - 1, dtype=np.uint64)
    return Leaves(one, full, one * 0x1234567 ^ 0x55, one * 0 + 64, one * 0 + 6400, one * 0 + read_at)


def made(folder: Path, chunks: int = 1) -> Kept:
    """Return the kept tree of a partition."""
    kept = Kept(str(folder))
    tree = Tree("orders", "A", 0, 0, chunks * CHUNK * LEAF)
    for chunk in range(chunks):
        tree = kept.joined(tree, leaves(range(chunk * CHUNK, chunk * CHUNK + 96), read_at=7 + chunk))
    kept.save(Trees(5, 5, {tree.place: tree}))
    return kept


def test_a_damaged_file_is_said_and_never_compared_with(tmp_path: Path) -> None:
    kept = made(tmp_path)
    assert kept.trees is not None
    (tree,) = kept.trees.trees.values()
    path = tmp_path / "leaves" / tree.chunks[0].file
    whole = path.read_bytes()
    for seed in cases("damaged digests", 300, 58378711):
        chance = random.Random(seed)  # noqa: S311  # tests want to be repeated, not to be secret
        place = chance.randrange(len(whole))
        flipped = whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :]
        path.write_bytes(chance.choice([flipped, flipped, whole[:place]]))
        found, said = None, ""
        try:
            found = kept.chunk(tree.chunks[0])
        except BadInputError as error:
            said = str(error)
        assert (found is None) == (f"{path}: it " in said) == ("digests begin anew" in said)
        if found is not None:
            assert found.leaf.tolist() == list(range(96))
            assert found.mask.tolist() == [2**64 - 1] * 96
            assert found.hash.tolist() == leaves(range(96)).hash.tolist()


@pytest.mark.parametrize("words", [b"", b"{", b"[]", b"7", b'{"version": 1, "trees": [[]]}', b'{"version": 1}'])
def test_a_damaged_manifest_is_said(tmp_path: Path, words: bytes) -> None:
    made(tmp_path)
    (tmp_path / "tree.json").write_bytes(words)
    with pytest.raises(BadInputError, match=r"tree\.json: it cannot be read .*mend it, or remove it"):
        Kept(str(tmp_path))


def test_the_second_of_two_runs_at_once_keeps_nothing_and_destroys_nothing(tmp_path: Path) -> None:
    made(tmp_path)
    slow, fast = Kept(str(tmp_path)), Kept(str(tmp_path))
    assert slow.trees is not None
    assert fast.trees is not None
    (tree,) = fast.trees.trees.values()
    ours = slow.joined(tree, leaves(range(96, 200)))
    fast.save(Trees(9, 9, {tree.place: fast.joined(tree, leaves(range(96, 300)))}))
    for act in (
        lambda: slow.save(Trees(8, 8, {tree.place: ours})),
        lambda: slow.leaves(tree, 0, 10),
        lambda: slow.leaves(ours, 0, 10),
    ):
        with pytest.raises(BadInputError, match="another run has replaced these digests meanwhile; do it again"):
            act()
    after = Kept(str(tmp_path))
    assert after.trees == fast.trees
    assert len(after.leaves(after.trees.trees[tree.place], 0, tree.end)) == 300


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    kept = Kept(str(tmp_path / "file" / "digests"))
    tree = Tree("orders", "A", 0, 0, 0)
    with pytest.raises(BadInputError, match="it cannot be written"):
        kept.joined(tree, leaves(range(10)))
    with pytest.raises(BadInputError, match="it cannot be written"):
        kept.save(Trees(5, 5, {}))


def test_old_leaves_are_read_again_in_the_order_of_their_age_across_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rereading, "BLOCK", 32)
    kept = made(tmp_path, chunks=2)
    assert kept.trees is not None
    (tree,) = kept.trees.trees.values()
    tree = kept.replaced(tree, 0, 64 * LEAF, leaves(range(64), read_at=20))  # all but a block of the first chunk
    size, second = 32 * LEAF, CHUNK * LEAF
    chosen = rereading.oldest(kept, [(tree, 0)], 2 * size)
    assert [(one.start, one.end) for one in chosen] == [(2 * size, 3 * size), (second, second + size)]
    assert rereading.oldest(kept, [(tree, 0)], 0) == []
    everything = rereading.oldest(kept, [(tree, 0)], tree.records)
    assert [(one.start, one.end) for one in everything] == [(0, 3 * size), (second, second + 3 * size)]

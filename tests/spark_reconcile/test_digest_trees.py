"""Leaves of digests, compared: whatever happens to a log, what vanished or changed is said, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import Mock, PropertyMock, patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from canary.facts.digests import place
from spark_reconcile.digests.reading import Range, Reader, batches
from spark_reconcile.digests.tree import LEAF, Differences, Leaves, Run, compare

if TYPE_CHECKING:
    from random import Random

Log = dict[int, int]
"""The digest of the record at each offset."""
OFFSETS = st.integers(0, 400)
LOGS = st.dictionaries(OFFSETS, st.integers(-(2**63), 2**63 - 1), max_size=300)


def leaves(log: Log) -> Leaves:
    """Return the leaves of a log, one record after the other."""
    found = Leaves.none()
    for offset, record in sorted(log.items()):
        found = found.joined(
            Leaves(
                np.array([offset // LEAF]),
                np.array([1 << offset % LEAF], dtype=np.uint64),
                np.array([place(offset, 0, record)]),
                np.array([1]),
                np.array([10]),
                np.array([7]),
            )
        )
    return found


def offsets(runs: tuple[Run, ...]) -> list[int]:
    """Return the offsets of runs, one after the other."""
    return [offset for run in runs for offset in range(run.offset, run.end)]


@given(before=LOGS, gone=st.sets(OFFSETS), changed=st.sets(OFFSETS), appended=LOGS, first=OFFSETS)
def test_what_vanished_and_what_changed_is_said_and_nothing_else(
    before: Log, gone: set[int], changed: set[int], appended: Log, first: int
) -> None:
    now = {o: d + (o in changed and (1 if d < 0 else -1)) for o, d in before.items() if o not in gone and o >= first}
    found = compare(leaves(before), leaves(now), first)
    assert offsets(found.lost) == sorted(o for o in before if o >= first and o in gone)
    whole = {o // LEAF for o in before} - {o // LEAF for o in before if o in gone or o < first}
    assert {run.offset // LEAF for run in found.changed} == whole & {o // LEAF for o in changed & before.keys()}
    for run in found.changed:
        mine = [o for o in before if o // LEAF == run.offset // LEAF]
        assert (run.offset, run.end - 1) == (min(mine), max(mine))
    assert found.expired == sum(o < first for o in before)
    assert found.compared + found.uncompared + len(offsets(found.lost)) + found.expired + sum(
        int(m).bit_count() for run in found.changed for m in leaves(before).between(run.offset, run.end).mask
    ) == len(before)
    end = max(before, default=-1) + 1
    more = {end + o: d for o, d in appended.items()}
    both = leaves(now).joined(leaves(more))
    again = leaves(now | more)
    assert (both.root, both.count, both.leaf.tolist()) == (again.root, again.count, again.leaf.tolist())


@given(before=LOGS, every=st.integers(1, 4), end=OFFSETS)
def test_compaction_is_no_loss_below_the_end_of_the_log(before: Log, every: int, end: int) -> None:
    gone = set(sorted(before)[::every])
    now = {o: d for o, d in before.items() if o < end and o not in gone}
    found = compare(leaves(before), leaves(now), 0, end)
    assert offsets(found.lost) == sorted(o for o in before if o >= end)
    assert found.gone == sum(o < end and o in gone for o in before)
    assert not found.changed


@given(before=LOGS, cut=OFFSETS, others=LOGS)
def test_behind_a_known_cut_every_record_that_is_another_one_is_named(before: Log, cut: int, others: Log) -> None:
    held = {o: d for o, d in before.items() if o < cut}
    refilled = {o: d for o, d in others.items() if o >= cut and d != before.get(o)}
    found = compare(leaves(before), leaves(held | refilled), 0, cut=cut)
    assert offsets(found.lost) == sorted(o for o in before if o >= cut and o not in refilled)
    assert offsets(found.replaced) == sorted(before.keys() & refilled.keys())
    new = {o // LEAF for o in refilled} - {o // LEAF for o in before if o in refilled}
    assert {run.offset // LEAF for run in found.changed} == new, "in these nothing is known to be another one"
    assert {o // LEAF for run in found.places() for o in range(run.offset, run.end)} == {
        o // LEAF for o in (before.keys() | refilled.keys()) if o >= cut
    }
    if not new:
        assert found.compared + found.uncompared == len(held)
    assert found.uncompared <= sum(o // LEAF == cut // LEAF for o in held)
    assert not compare(leaves(before), leaves(before), 0, cut=cut), "what was written again as it was is the same"


def test_two_records_that_changed_places_are_changed() -> None:
    before = {0: 1, 1: 2, 200: 3}
    assert compare(leaves(before), leaves({0: 2, 1: 1, 200: 3}), 0).changed == (Run(0, 2),)


def test_a_record_where_there_was_none_shows_that_a_log_was_filled_again() -> None:
    before = {0: 1, 70: 2}
    assert compare(leaves(before), leaves(before | {1: 5}), 0) == Differences(changed=(Run(0, 2),), compared=1)
    assert not compare(leaves(before), leaves(before | {1: 5}), 2), "an older start of another leader is nothing"


def test_a_leader_that_has_compacted_less_than_the_one_before_has_changed_nothing() -> None:
    before = {0: 1, 70: 2}
    found = compare(leaves(before), leaves(before | {1: 5}), 0, compacted=71)
    assert found == Differences(compared=1, uncompared=1)
    assert compare(leaves(before), leaves(before | {1: 5}), 0, compacted=1).changed == (Run(0, 2),)


@given(log=LOGS, start=OFFSETS, size=st.integers(0, 300))
def test_leaves_are_replaced_where_they_were_read_again(log: Log, start: int, size: int) -> None:
    start, end = start // LEAF * LEAF, -(-(start + size) // LEAF) * LEAF
    others = {o: d + 1 if d < 0 else d - 1 for o, d in log.items() if start <= o < end}
    found = leaves(log).replaced(leaves(others), start, end)
    assert found.root == leaves(log | others).root
    assert found.mask.tolist() == leaves(log).mask.tolist()


@given(
    ranges=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1000), st.integers(0, 1000)), max_size=9),
    most=st.integers(LEAF, 500),
)
def test_batches_read_every_offset_once_and_cut_between_leaves(ranges: list[tuple[int, int, int]], most: int) -> None:
    starts = [0, 0, 0, 0]
    wanted = []
    for partition, gap, size in ranges:
        start = starts[partition] + gap
        wanted.append(Range(("t", partition), start, start + size))
        starts[partition] = start + size
    found = []
    for batch in batches(wanted, most):
        assert len({one.place for one in batch}) == len(batch)
        assert sum(one.end - one.start for one in batch) <= most + LEAF
        found += batch
    every = [(one.place, offset) for one in wanted for offset in range(one.start, one.end)]
    assert sorted((one.place, offset) for one in found for offset in range(one.start, one.end)) == sorted(every)
    ends = {(one.place, one.end) for one in wanted}
    assert all(one.end % LEAF == 0 or (one.place, one.end) in ends for one in found)


@given(
    rows=st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 5)), st.integers(1, 9)),
    chance=st.randoms(use_true_random=False),
)
def test_rows_of_spark_are_told_apart_by_partition_whatever_their_order(
    rows: dict[tuple[str, int, int], int], chance: Random
) -> None:
    some = list(rows.items())
    chance.shuffle(some)
    names = ("topic", "partition", "leaf", "mask", "hash", "keys", "bytes")
    types = (pa.string(), pa.int32(), *[pa.int64()] * 5)
    every = [dict(zip(names, (*one, n, n, n, n), strict=True)) for one, n in some]
    table = pa.Table.from_pylist(every, pa.schema(list(zip(names, types, strict=True))))
    reader = Reader(Mock(), "c", {})
    most = patch.object(Reader, "most", PropertyMock(return_value=1 << 20))
    with most, patch.object(reader, "_rows", return_value=table):
        wanted = [Range((topic, partition), 0, 6 * LEAF) for topic in "ab" for partition in range(3)]
        (pieces,) = list(reader.read(wanted))
    assert [one.range for one in pieces] == wanted
    for (where, _, _), found in pieces:
        mine = sorted((leaf, n) for (topic, partition, leaf), n in rows.items() if (topic, partition) == where)
        assert list(zip(found.leaf.tolist(), found.mask.tolist(), strict=True)) == mine
        assert found.hash.tolist() == found.keys.tolist() == found.bytes.tolist() == [n for _, n in mine]

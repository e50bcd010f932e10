"""The kernel, without Spark, against the oracle: any night, cut into ranges in any way."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.nights import oracle
from simulation.nights.memory import reconciled, shaped
from simulation.nights.nights import bound, nights, probe, record
from spark_reconcile.match import extents
from spark_reconcile.match.kernel import Partition, RangeRows, Runs, settle
from spark_reconcile.match.ordering import Writes
from spark_reconcile.match.rules import Judgement, Sightings
from spark_reconcile.tables.columns import COMMITTED_LEVEL, Bounds, Columns, Damaged, Found, Probes
from spark_reconcile.tables.rows import probes_of, transactions_of
from tests.support.seeds import examples

if TYPE_CHECKING:
    import pytest


def differences(got: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Return what differs, innermost values only."""
    result: dict[str, Any] = {}
    for name in sorted({*got, *expected}, key=str):
        one, other = got.get(name), expected.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            result |= {f"{name}/{key}": value for key, value in differences(one, other).items()}
        elif one != other:
            result[str(name)] = (one, other)
    return result


@settings(max_examples=examples(100))
@given(night=nights(), cuts=st.sets(st.integers(0, 15), max_size=4), seed=st.integers(0, 99))
def test_any_night_in_any_cut_is_judged_as_the_text_says(night: oracle.Night, cuts: set[int], seed: int) -> None:
    expected = oracle.verdicts(night)
    order = random.Random(seed)  # noqa: S311  # nothing secret
    assert differences(reconciled(night, sorted(cuts), order), expected) == {}


def test_of_two_records_at_one_offset_each_meets_the_other() -> None:
    night = oracle.Night()
    night.bounds = [bound(level, 0, 5) for level in (oracle.RC, oracle.RU)]
    night.probes = [probe(0, None), probe(2, 4)]
    night.records = [record(2, 0, oracle.RC), record(2, 0, oracle.RU)]
    night.records += [record(4, 0, oracle.RU), record(4, 2, oracle.RU)]
    expected = oracle.verdicts(night)
    assert expected["counts"] == {"duplicate": 1, "moved": 1}
    for order in (random.Random(seed) for seed in range(4)):  # noqa: S311  # nothing secret
        assert differences(reconciled(night, [], order), expected) == {}


def found(*rows: tuple[int, int]) -> Found:
    """Return rows of producer 7: a generation and an offset each, the sequence is as the offset."""
    generation, offset = (np.array(column) for column in zip(*rows, strict=True))
    who = np.full(len(rows), 7), generation.astype(np.int32), offset
    return Found(*who, offset, np.full(len(rows), COMMITTED_LEVEL, dtype=np.uint8))


def test_of_very_many_rows_those_of_older_logs_are_left_out_but_polls_only_below_the_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A poll within bounds is looked for in the topic, whoever it is; below them nobody can look any more."""
    bounds = Bounds(start=5, end=20, dumped_at=0, retention_ms=None, retention_bytes=None)
    log = Partition(bounds, extents.Extents({(7, 2): (0, 9)}, {7: (2,)}))
    rows = RangeRows(Probes.zeros(), found((1, 6), (2, 7)), Damaged.zeros(), found((1, 4), (1, 8), (2, 3)))
    few = settle(rows, log).unsettled
    assert (few.records.offset.tolist(), sorted(few.polls.offset.tolist())) == ([6, 7], [3, 4, 8])
    monkeypatch.setattr(extents, "BULK", 2)
    many = settle(rows, log).unsettled
    assert (many.records.offset.tolist(), sorted(many.polls.offset.tolist())) == ([7], [3, 8])


def test_an_offset_of_two_is_told_with_the_one_that_was_acknowledged_there() -> None:
    bounds = Bounds(start=0, end=20, dumped_at=0, retention_ms=None, retention_bytes=None)
    night = oracle.Night(probes=[probe(0, 6)])
    acked = probes_of(shaped(night, "probes"), "c", frozenset(), transactions_of([]), "probes")
    rows = RangeRows(acked, found((1, 5), (2, 6)), Damaged.zeros(), Found.zeros())
    told = settle(rows, Partition(bounds, extents.Extents({}, {}))).conflicts
    assert (told.offset.tolist(), told.generation.tolist(), told.sequence.tolist()) == ([6], [1], [0])


def test_the_columns_of_every_class_are_cut_and_joined_however_its_module_writes_annotations() -> None:
    kinds: tuple[type[Columns], ...] = (Sightings, Judgement, Probes, Runs, Writes)
    for kind in kinds:
        one = kind.zeros(3)
        assert len(one.take(np.array([True, False, True]))) == 2
        assert len(kind.concat([one, one])) == 6

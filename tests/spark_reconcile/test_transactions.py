"""What became of transactions, looked up by the million: the same whether ids are dense or far apart."""

from __future__ import annotations

import random

import numpy as np
import pytest

from spark_reconcile.tables.columns import ABORTED, COMMITTED, NEVER, NO_TRANSACTION, OPEN, PLAIN
from spark_reconcile.tables.transactions import Outcomes, Transactions

STATES = {"committed": COMMITTED, "aborted": ABORTED, "indeterminate": OPEN}


@pytest.mark.parametrize("far", [1, 2, 3, 1000])
def test_what_was_told_is_found_and_nothing_else(far: int) -> None:
    seeded = random.Random(far)  # noqa: S311  # nothing secret
    ids = [-5 + n * seeded.randint(1, far) for n in range(200)]
    rows = [(one, seeded.choice(list(STATES.values())), 10**15 + seeded.randrange(10**9)) for one in ids * 2]
    seeded.shuffle(rows)
    expected: dict[int, int] = {}
    for one, state, _ in rows:
        expected[one] = min(expected.get(one, state), state)
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    outcomes = Outcomes.of(columns[0], columns[1].astype(np.uint8), columns[2])
    assert (outcomes.ids is None) == (max(ids) - min(ids) + 1 <= 2 * len(set(ids)))
    transactions = Transactions({("c", 7, 1): outcomes})
    asked = np.array([*expected, min(ids) - 1, max(ids) + 1, 10**12, NO_TRANSACTION])
    who = (np.full(len(asked), 7), np.full(len(asked), 1, dtype=np.int32), asked)
    assert transactions.states("c", *who).tolist() == [*expected.values(), OPEN, OPEN, OPEN, PLAIN]
    began = transactions.began("c", *who)
    assert (began[: len(expected)] // 1000).min() >= 10**12
    assert (began[len(expected) :] == NEVER).all()
    assert set(transactions.states("d", *who).tolist()) == {OPEN, PLAIN}


def test_a_million_in_a_row_take_five_bytes_each() -> None:
    ids = np.arange(10**6, dtype=np.int64)
    outcomes = Outcomes.of(ids, np.full(10**6, COMMITTED, dtype=np.uint8), ids * 1_000_000)
    assert outcomes.ids is None
    assert outcomes.states.nbytes + outcomes.began.nbytes == 5 * 10**6
    who = (np.full(10**6, 7), np.full(10**6, 1, dtype=np.int32), ids)
    assert (Transactions({("c", 7, 1): outcomes}).began("c", *who) == ids * 1_000_000).all()

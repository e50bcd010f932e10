"""Rows of the Parquet tables as columns.py and transactions.py want them: nulls as constants, text as numbers."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_reconcile.tables.columns import (
    ACKED,
    COMMITTED_LEVEL,
    I64,
    ISOLATIONS,
    NEVER,
    NO_OFFSET,
    NO_TRANSACTION,
    OUTCOMES,
    PLAIN,
    TRANSACTION_OUTCOMES,
    U8,
    UNCOMMITTED_LEVEL,
    Damaged,
    Found,
    Identities,
    Probes,
    by_producer,
)
from spark_reconcile.tables.parquet import codes, numbers
from spark_reconcile.tables.transactions import Outcomes, Transactions

_IDENTITY: Final = ("producer_id", "generation", "sequence")


def check_words(table: pa.Table, name: str, place: str) -> None:
    """Refuse rows of the table ``name`` with an unknown outcome or isolation level.

    Raises:
        BadInputError: there is one.
    """
    column, known = ("outcome", OUTCOMES) if name == "probes" else ("isolation", ISOLATIONS)
    codes(table, column, known, place)


def other_incarnation(table: pa.Table, ours: AbstractSet[str | None], place: str) -> NDArray[np.bool_]:
    """Return which rows have a topic_id, or none, that is not of ``ours`` (Dumped.ours)."""
    if not ours or (None in ours and table.column("topic_id").null_count == len(table)):
        return np.zeros(len(table), dtype=np.bool_)
    number, values = codes(table, "topic_id", None, place)
    foreign = np.array([value not in ours for value in (*values, None)])
    return foreign[number]


def probes_of(
    table: pa.Table, cluster: str, ours: AbstractSet[str | None], transactions: Transactions, place: str
) -> Probes:
    """Return rows of probes/, all of one partition.

    Raises:
        BadInputError: an outcome is none of the three.
    """
    outcome, _ = codes(table, "outcome", OUTCOMES, place)
    mode, modes = codes(table, "mode", None, place)
    producer, generation = numbers(table, "producer_id"), numbers(table, "generation")
    if table.column("transaction_id").null_count == len(table):
        transaction = np.full(len(table), NO_TRANSACTION, dtype=np.int64)
        state = np.full(len(table), PLAIN, dtype=np.uint8)
    else:
        transaction = numbers(table, "transaction_id", NO_TRANSACTION)
        state = transactions.states(cluster, producer, generation, transaction)
    offset = numbers(table, "offset", NO_OFFSET)
    offset = np.where(offset < 0, NO_OFFSET, offset) if len(offset) and offset.min() < NO_OFFSET else offset
    acked_at = numbers(table, "acked_at", NEVER)
    if (outcome != ACKED).any():
        acked_at = np.where(outcome == ACKED, acked_at, NEVER)
    other = other_incarnation(table, ours, place)
    if other.any():  # without an id only a promise is void: what promised nothing cannot be lost, and may yet be found
        other &= (outcome == ACKED) | pc.is_valid(table.column("topic_id")).to_numpy()
    return Probes(
        producer=producer,
        generation=generation,
        sequence=numbers(table, "sequence"),
        offset=offset,
        outcome=outcome.astype(np.uint8),
        acked_at=acked_at,
        sent_at=numbers(table, "sent_at"),
        transaction=transaction,
        transaction_state=state,
        other=other,
        mode=mode,
        modes=modes,
    )


def _found(table: pa.Table, place: str) -> Found:
    producer, generation, sequence = (numbers(table, name, -1) for name in _IDENTITY)
    isolation, _ = codes(table, "isolation", ISOLATIONS, place)
    level = np.array([COMMITTED_LEVEL, UNCOMMITTED_LEVEL], dtype=np.uint8)[isolation]
    return Found(producer, generation, sequence, numbers(table, "offset"), level)


def polls_of(table: pa.Table, ours: AbstractSet[str | None], place: str) -> Found:
    """Return rows of polls/, all of one partition, without another incarnation's."""
    return _found(table, place).take(~other_incarnation(table, ours, place))


def records_of(table: pa.Table, ours: AbstractSet[str | None], place: str) -> tuple[Found, Damaged]:
    """Return rows of records/, all of one partition: those with an identity, and the invalid ones; not the foreign."""
    own = ~other_incarnation(table, ours | {None} if ours else ours, place)  # the dump's own rows need no id
    found, valid = _found(table, place), table.column("valid").to_numpy().astype(np.bool_)
    damaged = own & ~valid
    for name in _IDENTITY:
        valid &= pc.is_valid(table.column(name)).to_numpy()
    return found.take(own & valid), Damaged(found.offset[damaged], found.level[damaged])


def transactions_of(tables: Iterable[tuple[str, pa.Table]]) -> Transactions:
    """Return what became of every transaction in tables (path, rows).

    Raises:
        BadInputError: an outcome is none of the three.
    """
    states = np.array(list(TRANSACTION_OUTCOMES.values()), dtype=np.uint8)
    parts: dict[tuple[str, int, int], list[tuple[I64, U8, I64]]] = {}
    for path, table in tables:
        outcome, _ = codes(table, "outcome", tuple(TRANSACTION_OUTCOMES), path)
        number, clusters = codes(table, "cluster", None, path)
        who = Identities(*(numbers(table, name) for name in ("producer_id", "generation", "transaction_id")))
        began = numbers(table, "began_at")
        for code, cluster in enumerate(clusters):
            rows = np.flatnonzero(number == code)
            for producer, generation, mine in by_producer(who.take(rows)):
                chosen = rows[mine]
                rows_of = (who.sequence[chosen], states[outcome[chosen]], began[chosen])
                parts.setdefault((cluster, producer, generation), []).append(rows_of)
    result = Transactions()
    while parts:
        key, columns = parts.popitem()
        ids, states, begins = (np.concatenate(column) for column in zip(*columns, strict=True))
        result.known[key] = Outcomes.of(ids, states, begins)
    return result

"""Facts of one segment to rows of the three tables. Pure: the same facts and the same carry give the same tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from canary.facts import (
    Aborted,
    Acked,
    CommitAsked,
    Committed,
    Fact,
    Failed,
    GenerationBegan,
    Indeterminate,
    Polled,
    RunnerStarted,
    Sent,
    TopicGone,
    TopicSeen,
    TransactionBegan,
    TransactionIndeterminate,
    WatchAsked,
)
from canary.probe.identity import Identity
from storage.probe_log.carry import Carry, OpenProbe, OpenTransaction, TransactionKey
from storage.probe_log.incarnations import UNKNOWN, Incarnations, Place
from storage.probe_log.schemas import POLLS, PROBES, SORTED_BY, TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_UNKNOWN_MODE = "unknown"
_ENDED = (Committed, Aborted, TransactionIndeterminate)


@dataclass(frozen=True, slots=True)
class Converted:
    """The tables of one segment (schemas PROBES, TRANSACTIONS, POLLS, sorted), and what the next segment needs.

    ``first_at_ns`` is the time of the segment's first fact, None if it has none. ``voided`` counts acks and polls whose
    incarnation nobody can say.
    """

    probes: pa.Table
    transactions: pa.Table
    polls: pa.Table
    carry: Carry
    first_at_ns: int | None
    voided: int


@dataclass(slots=True)
class _Row:
    """A row of probes/ in the making; ``sent`` and ``resolved`` are its places among the samples of the topic's id."""

    topic: str
    mode: str
    transaction_id: int | None
    sent_at_ns: int
    sent: Place
    resolved: Place | None = None
    outcome: str = "indeterminate"
    offset: int | None = None
    acked_at_ns: int | None = None
    error: str | None = None


def convert(
    batches: Iterable[Sequence[Fact]], *, cluster: str, carry: Carry, later: Mapping[str, str] | None = None
) -> Converted:
    """Turn a segment's facts into tables.

    Args:
        batches: the segment's facts, in ledger order.
        cluster: the cluster's name, for the first column.
        carry: what the segment before handed on (``Carry()`` for the first).
        later: topic to the id that the following segment tells first (incarnations.first_told).

    Returns:
        The tables and the next carry, whose ``ledger_id`` and ``segment`` are the old ones.
    """
    conversion = _Conversion(carry)
    for batch in batches:
        for fact in batch:
            conversion.take(fact)
    return conversion.result(cluster, later or {})


class _Conversion:
    def __init__(self, carry: Carry) -> None:
        self._carry = carry
        self._open: dict[Identity, _Row] = {
            identity: _Row(probe.topic, probe.mode, probe.transaction_id, probe.sent_at_ns, carry.place(probe))
            for identity, probe in carry.probes.items()
        }
        self._rows: dict[Identity, _Row] = {}
        self._open_transactions = dict(carry.transactions)
        self._transactions: dict[TransactionKey, tuple[Any, ...]] = {}
        self._polls: list[tuple[Polled, Place]] = []
        self._incarnations = Incarnations(carry.topic_ids, carry.dead_ids)
        self._modes = dict(carry.modes)
        self._marked = dict(carry.marked)
        self._first_at_ns: int | None = None
        self._voided = 0

    def take(self, fact: Fact) -> None:
        if self._first_at_ns is None:
            self._first_at_ns = fact.at_ns
        match fact:
            case Polled():
                self._polls.append((fact, self._incarnations.here(fact.topic)))
            case Sent():
                identity = Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence)
                row = _Row(fact.topic, fact.mode, fact.transaction_id, fact.at_ns, self._sent_here(fact))
                self._rows[identity] = self._open[identity] = row
            case Acked() | Failed() | Indeterminate():
                self._resolve(fact)
            case WatchAsked() | TopicSeen() | TopicGone():
                self._incarnations.take(fact)
            case TransactionBegan() | CommitAsked() | Committed() | Aborted() | TransactionIndeterminate():
                self._transaction(fact)
            case GenerationBegan():
                self._began(fact)
            case RunnerStarted():
                self._restarted()
            case _:
                pass  # evidence of other kinds: not in the probe log

    def _began(self, fact: GenerationBegan) -> None:
        self._modes[fact.producer_id] = fact.mode
        # The generation before may still have delivery reports under way, an older one has not.
        oldest = (fact.producer_id, fact.generation - 1)
        for identity in [i for i in self._open if i.producer_id == oldest[0] and i.generation < oldest[1]]:
            del self._open[identity]
        for key in [key for key in self._marked if key[0] == oldest[0] and key < oldest]:
            del self._marked[key]
        if fact.topic_id is not None:
            self._marked[fact.producer_id, fact.generation] = fact.topic_id

    def _sent_here(self, fact: Sent | Acked | Failed | Indeterminate) -> Place:
        here = self._incarnations.here(fact.topic)
        return Place(self._marked.get((fact.producer_id, fact.generation), here.seen), here.asked)

    def _resolve(self, fact: Acked | Failed | Indeterminate) -> None:
        identity = Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence)
        row = self._open.pop(identity, None) or self._rows.get(identity)
        if row is None:  # its sending was lost with a damaged segment, or its outcome was told before and got better
            sent_at_ns = fact.at_ns - (fact.latency_ns or 0) if isinstance(fact, Acked) else fact.at_ns
            mode = self._modes.get(fact.producer_id, _UNKNOWN_MODE)
            row = _Row(fact.topic, mode, None, sent_at_ns, self._sent_here(fact))
        self._rows[identity] = row
        if row.outcome == "acked":
            return  # told twice
        row.resolved = self._incarnations.here(fact.topic)
        if isinstance(fact, Acked):
            row.outcome, row.offset, row.acked_at_ns, row.error = "acked", fact.offset, fact.at_ns, None
        else:
            row.outcome = "failed" if isinstance(fact, Failed) else "indeterminate"
            row.error = fact.error

    def _transaction(
        self, fact: TransactionBegan | CommitAsked | Committed | Aborted | TransactionIndeterminate
    ) -> None:
        key = (fact.producer_id, fact.generation, fact.transaction_id)
        if isinstance(fact, TransactionBegan):
            self._open_transactions[key] = OpenTransaction(fact.at_ns, None)
            return
        known = self._open_transactions.get(key) or OpenTransaction(fact.at_ns, None)
        if isinstance(fact, CommitAsked):
            self._open_transactions[key] = OpenTransaction(known.began_at_ns, fact.at_ns)
            return
        self._open_transactions.pop(key, None)
        before = self._transactions.get(key)
        if before is not None:  # settled after all
            known = OpenTransaction(before[3], before[4])
        outcome = {Committed: "committed", Aborted: "aborted"}.get(type(fact), "indeterminate")
        error = None if isinstance(fact, Committed) else fact.error
        self._transactions[key] = (*key, known.began_at_ns, known.commit_at_ns, outcome, fact.at_ns, error)

    def _restarted(self) -> None:
        """The process that awaited outcomes is dead: what was open stays indeterminate."""
        self._open.clear()
        for key, known in self._open_transactions.items():
            why = "the canary ended before it knew"
            self._transactions[key] = (*key, known.began_at_ns, known.commit_at_ns, "indeterminate", None, why)
        self._open_transactions.clear()

    def result(self, cluster: str, later: Mapping[str, str]) -> Converted:
        probes = self._probe_table(cluster, later)
        polls = self._poll_table(cluster, later)
        transactions = _table(TRANSACTIONS, [(cluster, *row) for row in self._transactions.values()], "transactions")
        topics = self._incarnations.topics
        carry = Carry(
            self._carry.ledger_id,
            self._carry.segment,
            {
                identity: OpenProbe(row.topic, row.sent.seen, row.mode, row.transaction_id, row.sent_at_ns)
                for identity, row in self._open.items()
            },
            self._open_transactions,
            {name: topic.seen for name, topic in topics.items()},
            {name: topic.dead for name, topic in topics.items() if topic.dead},
            self._modes,
            self._marked,
        )
        return Converted(probes, transactions, polls, carry, self._first_at_ns, self._voided)

    def _probe_table(self, cluster: str, later: Mapping[str, str]) -> pa.Table:
        rows = []
        for identity, row in self._rows.items():
            topic_id = self._incarnations.enclosed(row.topic, row.sent, row.resolved or row.sent, later)
            if topic_id == UNKNOWN:
                topic_id = None
                if row.outcome == "acked":
                    self._voided += 1
                    row.outcome = "indeterminate"
                    row.error = f"acked at offset {row.offset}, of which incarnation of the topic nobody can say"
                    row.offset = row.acked_at_ns = None
            rows.append(
                (
                    cluster,
                    row.topic,
                    topic_id,
                    identity.partition,
                    identity.producer_id,
                    identity.generation,
                    identity.sequence,
                    row.mode,
                    row.transaction_id,
                    row.sent_at_ns,
                    row.outcome,
                    row.offset,
                    row.acked_at_ns,
                    None,
                    row.error,
                )
            )
        return _table(PROBES, rows, "probes")

    def _poll_table(self, cluster: str, later: Mapping[str, str]) -> pa.Table:
        rows = []
        for fact, place in self._polls:
            topic_id = self._incarnations.enclosed(fact.topic, place, place, later)
            if topic_id == UNKNOWN:
                self._voided += 1
                continue
            rows.append(
                (
                    cluster,
                    fact.topic,
                    topic_id,
                    fact.partition,
                    fact.consumer,
                    fact.isolation,
                    fact.offset,
                    fact.producer_id,
                    fact.generation,
                    fact.sequence,
                    fact.at_ns,
                    fact.leader_epoch,
                )
            )
        return _table(POLLS, rows, "polls")


def _table(schema: pa.Schema, rows: list[tuple[Any, ...]], name: str) -> pa.Table:
    """Return rows (times in ns) as a table of ``schema``, sorted as SORTED_BY[name] says."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = []
    for values, column in zip(columns, schema, strict=True):
        if pa.types.is_timestamp(column.type):
            micros = [None if value is None else value // 1000 for value in values]
            arrays.append(pa.array(micros, pa.int64()).cast(column.type))
        else:
            arrays.append(pa.array(values, column.type))
    table = pa.table(arrays, schema=schema)
    return table.sort_by([(key, "ascending") for key in SORTED_BY[name]])

"""Facts of one segment to rows of the three tables. Pure: the same facts and the same carry give the same tables.

Sends, outcomes and polls stay columns from the ledger to the file. Rows of one topic, producer and generation with no
*moment* (a sample, a generation's begin) between them share a *context*: their samples, and their producer's mode.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from canary import facts as f
from canary.probe.identity import Identity
from storage.ledger.codec import KIND_COLUMN, facts_of
from storage.probe_log.carry import Carry, OpenProbe, OpenTransaction, TransactionKey
from storage.probe_log.clock import AHEAD, by_the_machines_clock
from storage.probe_log.columns import Flags, Numbers, micros, numbered, or_null, table_of
from storage.probe_log.incarnations import SAMPLES, UNKNOWN, Incarnations, Place, Sample
from storage.probe_log.schemas import POLLS, TIME, TRANSACTIONS

Transactional: TypeAlias = f.TransactionBegan | f.CommitAsked | f.Committed | f.Aborted | f.TransactionIndeterminate
Moment: TypeAlias = Sample | f.GenerationBegan

_BLOCK_ROWS = 65_536
"""So many rows at once are split by kind: nothing holds the columns of all kinds for a whole segment."""
_ROW = "_row"
"""The column with a fact's number in the segment, -1 in what was carried: the order of the ledger."""
_COMMON = [
    *((name, pa.int64()) for name in (_ROW, "at_ns", "partition", "producer_id", "generation", "sequence")),
    ("topic", pa.string()),
]
_SENDS = pa.schema([*_COMMON, ("mode", pa.string()), ("transaction_id", pa.int64())])
_OUTCOMES = pa.schema(
    [*_COMMON, (KIND_COLUMN, pa.int8()), ("offset", pa.int64()), ("latency_ns", pa.int64()), ("error", pa.string())]
)
_POLLS = pa.schema(
    [
        *_COMMON,
        ("consumer", pa.string()),
        ("isolation", pa.string()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int64()),
    ]
)
_COLUMNS: tuple[tuple[pa.Schema, Collection[type[f.Fact]]], ...] = (
    (_SENDS, (f.Sent,)),
    (_OUTCOMES, (f.Acked, f.Failed, f.Indeterminate)),
    (_POLLS, (f.Polled,)),
)
OBJECTS = (
    *SAMPLES,
    f.GenerationBegan,
    f.TransactionBegan,
    f.CommitAsked,
    f.Committed,
    f.Aborted,
    f.TransactionIndeterminate,
)
"""Of these facts are made (no default of theirs is another than None: batches are joined, and what one lacks is null).
Evidence of kinds that are neither here nor in _COLUMNS is not in the probe log.
"""
_ACKED, _FAILED = f.FACT_KINDS.index(f.Acked), f.FACT_KINDS.index(f.Failed)
_NEVER = np.iinfo(np.int64).max
_UNKNOWN_MODE = "unknown"


@dataclass(frozen=True, slots=True)
class Converted:
    """The ``tables`` of one segment (by name, as SCHEMAS has them, sorted), and what the next segment needs.

    ``first_at_ns`` is the time of the segment's first fact, None if it has none. ``voided`` counts acks and polls whose
    incarnation is unknown.
    """

    tables: Mapping[str, pa.Table]
    carry: Carry
    first_at_ns: int | None
    voided: int


class _Transaction(NamedTuple):
    """A row of transactions/ without its key."""

    began_at_ns: int
    commit_at_ns: int | None
    outcome: str
    ended_at_ns: int | None
    error: str | None


class _Context(NamedTuple):
    topic: str
    place: Place
    mode: str


def convert(
    tables: Iterable[pa.Table], *, cluster: str, carry: Carry, later: Mapping[str, str] | None = None
) -> Converted:
    """Turn a segment's batches (codec.decode_table), in ledger order, into tables and the next carry.

    ``carry`` is what the segment before handed on (``Carry()`` for the first); the next one has its id and segment.
    ``later`` has the id that the following segment tells first, by topic (incarnations.first_told).
    """
    conversion = _Conversion(carry)
    for block in _blocks(tables):
        conversion.take(block)
    return conversion.result(cluster, later or {})


def _blocks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of ``tables`` in larger pieces, none of them empty, with all the columns of _COLUMNS."""
    known = [schema.remove(schema.get_field_index(_ROW)) for schema, _ in _COLUMNS]
    empty = pa.unify_schemas([*known, AHEAD]).empty_table()
    parts, rows = [empty], 0
    for table in tables:
        parts.append(table)
        rows += len(table)
        if rows >= _BLOCK_ROWS:
            yield pa.concat_tables(parts, promote_options="permissive").combine_chunks()
            parts, rows = [empty], 0
    if rows:
        yield pa.concat_tables(parts, promote_options="permissive").combine_chunks()


class _Conversion:
    def __init__(self, carry: Carry) -> None:
        self._carry = carry
        self._rows = 0
        self._first_at_ns: int | None = None
        self._parts = {schema: [schema.empty_table()] for schema, _ in _COLUMNS}
        self._moments: list[tuple[int, Moment]] = []
        self._ends: list[tuple[int, int | None, int]] = []
        """(row, producer, generation): from then on no older generation of the producer (None: of any) is awaited."""
        self._contexts = [
            _Context(one.topic, Place(one.topic_id, 0), one.mode)  # what is carried lies before all samples here
            for one in carry.probes.values()
        ]
        self._open_transactions = dict(carry.transactions)
        self._transactions: dict[TransactionKey, _Transaction] = {}
        self._incarnations = Incarnations(
            carry.topic_ids, carry.dead_ids, carry.cluster_id, elsewhere=carry.elsewhere, in_doubt=carry.in_doubt
        )
        self._modes = dict(carry.modes)
        self._marked: dict[int, dict[int, str | None]] = {}
        for (producer_id, generation), topic_id in carry.marked.items():
            self._marked.setdefault(producer_id, {})[generation] = topic_id
        self._open: dict[Identity, OpenProbe] = {}
        self._voided = 0
        self._clock_ahead_ns = carry.clock_ahead_ns

    def take(self, block: pa.Table) -> None:
        block, self._clock_ahead_ns = by_the_machines_clock(block, self._clock_ahead_ns)
        if self._first_at_ns is None:
            self._first_at_ns = block.column("at_ns")[0].as_py()
        rows = np.arange(self._rows, self._rows + len(block))
        self._rows += len(block)
        block = block.append_column(_ROW, pa.array(rows))
        numbers = block.column(KIND_COLUMN).to_numpy()
        for schema, kinds in _COLUMNS:
            chosen = _are(numbers, kinds)
            if chosen.any():
                self._parts[schema].append(block.select(schema.names).filter(pa.array(chosen)).cast(schema))
        objects = np.flatnonzero(_are(numbers, OBJECTS))
        for row, fact in zip(rows[objects].tolist(), facts_of(block.take(objects)), strict=True):
            match fact:
                case f.WatchAsked() | f.TopicSeen() | f.TopicGone() | f.ClusterMet() | f.ClusterSeen():
                    self._moments.append((row, fact))
                case f.GenerationBegan():
                    self._moments.append((row, fact))
                    # Delivery reports of the generation before may still come; an older one has none under way.
                    self._ends.append((row, fact.producer_id, fact.generation - 1))
                case f.RunnerStarted():
                    self._moments.append((row, fact))
                    self._ends.append((row, None, 0))
                    self._restarted()
                case (
                    f.TransactionBegan() | f.CommitAsked() | f.Committed() | f.Aborted() | f.TransactionIndeterminate()
                ):
                    self._transaction(fact)
                case _:
                    raise AssertionError(fact)

    def _began(self, fact: f.GenerationBegan) -> None:
        self._modes[fact.producer_id] = fact.mode
        if fact.topic_id != self._mark(fact.producer_id, fact.generation):
            self._marked.setdefault(fact.producer_id, {})[fact.generation] = fact.topic_id

    def _mark(self, producer_id: int, generation: int) -> str | None:
        """Return the topic id in the records of a generation, None if it is not known."""
        marks = self._marked.get(producer_id, {})
        return marks.get(max((since for since in marks if since <= generation), default=-1))

    def _transaction(self, fact: Transactional) -> None:
        key = (fact.producer_id, fact.generation, fact.transaction_id)
        if isinstance(fact, f.TransactionBegan):
            self._open_transactions[key] = OpenTransaction(fact.at_ns, None)
            return
        known = self._open_transactions.get(key) or OpenTransaction(fact.at_ns, None)
        if isinstance(fact, f.CommitAsked):
            self._open_transactions[key] = OpenTransaction(known.began_at_ns, fact.at_ns)
            return
        self._open_transactions.pop(key, None)
        before = self._transactions.get(key, known)  # it may have ended as indeterminate before
        outcome = {f.Committed: "committed", f.Aborted: "aborted"}.get(type(fact), "indeterminate")
        error = None if isinstance(fact, f.Committed) else fact.error
        self._transactions[key] = _Transaction(before.began_at_ns, before.commit_at_ns, outcome, fact.at_ns, error)

    def _restarted(self) -> None:
        """The process that awaited outcomes is dead: what was open stays indeterminate."""
        for key, known in self._open_transactions.items():
            self._transactions[key] = _Transaction(*known, "indeterminate", None, "the canary ended before it knew")
        self._open_transactions.clear()

    def result(self, cluster: str, later: Mapping[str, str]) -> Converted:
        sends, outcomes, polls = (pa.concat_tables(self._parts.pop(schema)) for schema, _ in _COLUMNS)
        sends = pa.concat_tables([self._carried(), sends]).combine_chunks()
        outcomes, polls = outcomes.combine_chunks(), polls.combine_chunks()
        contexts = self._place(sends, outcomes, polls)
        columns = {
            "polls": self._poll_columns(polls, contexts[2], later),
            "transactions": self._transaction_columns(),
            "probes": self._probe_columns(sends, outcomes, contexts, later),
        }
        tables = {name: table_of(name, cluster, some) for name, some in columns.items()}
        carry = Carry(
            self._carry.ledger_id,
            self._carry.segment,
            self._open,
            self._open_transactions,
            self._incarnations.seen(),
            self._incarnations.dead(),
            self._modes,
            {(producer, since): mark for producer, marks in self._marked.items() for since, mark in marks.items()},
            self._clock_ahead_ns,
            self._incarnations.cluster_id,
            self._incarnations.elsewhere,
            self._incarnations.in_doubt,
        )
        return Converted(tables, carry, self._first_at_ns, self._voided)

    def _carried(self) -> pa.Table:
        """Return the open probes of the segments before as sends."""
        return pa.Table.from_pylist(
            [
                identity._asdict()
                | {_ROW: -1, "at_ns": one.sent_at_ns}
                | {"topic": one.topic, "mode": one.mode, "transaction_id": one.transaction_id}
                for identity, one in self._carry.probes.items()
            ],
            _SENDS,
        )

    def _place(self, *tables: pa.Table) -> list[Numbers]:
        """Return the number of the context of each row, table by table."""
        names = [_ROW, "topic", "producer_id", "generation"]
        rows = pa.concat_tables([table.select(names) for table in tables]).slice(len(self._contexts)).combine_chunks()
        row, *who = rows.itercolumns()
        moments = np.searchsorted(np.array([at for at, _ in self._moments], np.int64), row.to_numpy())
        numbers, first = numbered(pa.array(moments), *who)
        order = np.argsort(moments[first], kind="stable")
        to_come = iter(self._moments)
        taken, carried = 0, len(self._contexts)
        for until, one in zip(moments[first[order]].tolist(), rows.take(first[order]).to_pylist(), strict=True):
            for _, moment in islice(to_come, until - taken):
                self._reach(moment)
            taken = until
            topic, producer_id = one["topic"], one["producer_id"]
            here, mode = self._incarnations.here(topic), self._modes.get(producer_id, _UNKNOWN_MODE)
            place = Place(self._mark(producer_id, one["generation"]) or here.seen, here.asked)
            self._contexts.append(_Context(topic, place, mode))
        for _, moment in to_come:
            self._reach(moment)
        position = np.empty(len(first), np.int64)
        position[order] = np.arange(carried, carried + len(first))
        contexts = np.concatenate([np.arange(carried), position[numbers]])
        return np.split(contexts, np.cumsum([len(table) for table in tables])[:-1])

    def _reach(self, moment: Moment) -> None:
        if isinstance(moment, f.GenerationBegan):
            self._began(moment)
        else:
            self._incarnations.take(moment)

    def _probe_columns(
        self, sends: pa.Table, outcomes: pa.Table, contexts: list[Numbers], later: Mapping[str, str]
    ) -> dict[str, pa.Array]:
        """Bring sends and outcomes together; what has no outcome yet is open."""
        of_sends, of_outcomes = (np.append(one, -1) for one in contexts[:2])  # at -1: of none
        send_row, outcome_row = (np.append(table.column(_ROW).to_numpy(), -1) for table in (sends, outcomes))
        both = pa.concat_tables([table.select(Identity._fields) for table in (sends, outcomes)]).combine_chunks()
        numbers, distinct = numbered(*both.itercolumns())
        sent, told = np.split(numbers, [len(sends)])
        send, first, best = (np.full(len(distinct), -1) for _ in range(3))
        send[sent] = np.arange(len(sends))  # of several rows with one number the last assignment stays, here and below
        valid = np.flatnonzero(outcome_row[:-1] > send_row[send[told]])  # what is sent anew has no outcome from before
        first[told[valid[::-1]]], best[told[valid]] = valid[::-1], valid
        acks = valid[outcomes.column(KIND_COLUMN).to_numpy()[valid] == _ACKED][::-1]
        best[told[acks]] = acks
        ended = np.append(self._ended(sends), _NEVER)[send]
        self._keep_open(sends, of_sends, send[(send >= 0) & (first < 0) & (ended == _NEVER)])

        carried = send < len(self._carry.probes)
        made = (first >= 0) & ((send < 0) | carried & (ended < outcome_row[first]))
        known = ~made & ((first >= 0) | ~carried)
        send, first, best = send[known], first[made], np.concatenate([best[known], best[made]])
        rows = pa.concat_tables([sends.take(send), self._made(outcomes.take(first), of_outcomes[first])])
        begun = np.concatenate([of_sends[send], of_outcomes[first]])
        ids, unknown = self._enclosed(begun, np.where(best < 0, begun, of_outcomes[best]), later)

        results = outcomes.select([KIND_COLUMN, "at_ns", "offset", "error"]).take(or_null(best)).combine_chunks()
        kinds = results.column(KIND_COLUMN).fill_null(-1).to_numpy()
        acked = kinds == _ACKED
        voided, error = acked & unknown, results.column("error")
        if voided.any():
            self._voided += int(voided.sum())
            offset = pc.coalesce(results.column("offset").cast(pa.string()), pa.scalar("None"))
            why = ("acked at offset ", offset, ", in an unknown incarnation of the topic", "")
            error = pc.if_else(pa.array(voided), pc.binary_join_element_wise(*why), error)
        promised = pa.array(acked & ~voided)
        outcome = np.where(acked & ~voided, 0, np.where(kinds == _FAILED, 1, 2))
        return {
            **{name: rows.column(name) for name in ("topic", *Identity._fields, "mode", "transaction_id")},
            "topic_id": ids,
            "sent_at": micros(rows.column("at_ns")),
            "outcome": pa.array(["acked", "failed", "indeterminate"]).take(pa.array(outcome)),
            "offset": pc.if_else(promised, results.column("offset"), None),
            "acked_at": micros(pc.if_else(promised, results.column("at_ns"), None)),
            "error": error,
        }

    def _made(self, outcomes: pa.Table, contexts: Numbers) -> pa.Table:
        """Return the sends of outcomes without one: it was lost with damage, or had a worse outcome before."""
        sent_at_ns = pc.subtract(outcomes.column("at_ns"), outcomes.column("latency_ns").fill_null(0))
        own = {
            "at_ns": sent_at_ns,
            "mode": pa.array([self._contexts[number].mode for number in contexts.tolist()], pa.string()),
            "transaction_id": pa.nulls(len(outcomes), pa.int64()),
        }
        return pa.table([own[n] if n in own else outcomes.column(n) for n in _SENDS.names], schema=_SENDS)

    def _ended(self, sends: pa.Table) -> Numbers:
        """Return the row from which on nobody waits for an outcome any more, send by send."""
        row, producer_id, generation = (sends.column(n).to_numpy() for n in (_ROW, "producer_id", "generation"))
        ended = np.full(len(sends), _NEVER)
        for end, producer, oldest in reversed(self._ends):
            over = row < end
            if producer is not None:
                over &= (producer_id == producer) & (generation < oldest)
            ended[over] = end
        return ended

    def _keep_open(self, sends: pa.Table, contexts: Numbers, chosen: Numbers) -> None:
        """Note the ``chosen`` sends as open."""
        for one, context in zip(sends.take(chosen).to_pylist(), contexts[chosen].tolist(), strict=True):
            seen = self._contexts[context].place.seen
            self._open[Identity(*(one[name] for name in Identity._fields))] = OpenProbe(
                one["topic"], seen, one["mode"], one["transaction_id"], one["at_ns"]
            )

    def _poll_columns(self, polls: pa.Table, contexts: Numbers, later: Mapping[str, str]) -> dict[str, pa.Array]:
        ids, unknown = self._enclosed(contexts, contexts, later, read=True)
        polls = polls.append_column("topic_id", ids)
        if unknown.any():
            self._voided += int(unknown.sum())
            polls = polls.filter(pa.array(~unknown))
        own = {"consumer_id": polls.column("consumer"), "polled_at": micros(polls.column("at_ns"))}
        return own | {name: polls.column(name) for name in POLLS.names if name in polls.column_names}

    def _transaction_columns(self) -> dict[str, pa.Array]:
        rows = [(*key, *row) for key, row in self._transactions.items()]
        names = [name for name in TRANSACTIONS.names if name != "cluster"]
        columns = zip(*rows, strict=True) if rows else [()] * len(names)
        arrays = {}
        for name, values in zip(names, columns, strict=True):
            kind = TRANSACTIONS.field(name).type
            arrays[name] = micros(pa.array(values, pa.int64())) if kind == TIME else pa.array(values, kind)
        return arrays

    def _enclosed(
        self, first: Numbers, last: Numbers, later: Mapping[str, str], *, read: bool = False
    ) -> tuple[pa.Array, Flags]:
        """Return the topic ids of what began and ended in these contexts, and which are of an unknown incarnation."""
        numbers, rows = numbered(pa.array(first), pa.array(last))
        ids = []
        for begun, done in zip(first[rows].tolist(), last[rows].tolist(), strict=True):
            topic, place, _ = self._contexts[begun]
            ids.append(self._incarnations.enclosed(topic, place, self._contexts[done].place, later, read=read))
        unknown = np.array([topic_id == UNKNOWN for topic_id in ids], np.bool_)
        told = pa.array([None if topic_id == UNKNOWN else topic_id for topic_id in ids], pa.string())
        return told.take(pa.array(numbers)), unknown[numbers]


def _are(numbers: npt.NDArray[np.int8], kinds: Collection[type[f.Fact]]) -> Flags:
    return np.isin(numbers, [f.FACT_KINDS.index(kind) for kind in kinds])

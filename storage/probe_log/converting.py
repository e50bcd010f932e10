"""Facts of one segment to rows of the three tables. Pure: the same facts and the same carry give the same tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from canary import facts as f
from canary.probe.identity import Identity
from storage.probe_log.carry import Carry, OpenProbe, OpenTransaction, TransactionKey
from storage.probe_log.incarnations import UNKNOWN, Incarnations, Place
from storage.probe_log.schemas import SCHEMAS, SORTED_BY

Outcome: TypeAlias = f.Acked | f.Failed | f.Indeterminate
Transactional: TypeAlias = f.TransactionBegan | f.CommitAsked | f.Committed | f.Aborted | f.TransactionIndeterminate
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


@dataclass(slots=True)
class _Probe:
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


class _Transaction(NamedTuple):
    """A row of transactions/ without its key."""

    began_at_ns: int
    commit_at_ns: int | None
    outcome: str
    ended_at_ns: int | None
    error: str | None


def convert(
    batches: Iterable[Sequence[f.Fact]], *, cluster: str, carry: Carry, later: Mapping[str, str] | None = None
) -> Converted:
    """Turn a segment's facts, in ledger order, into tables and the next carry (with the old one's id and segment).

    ``carry`` is what the segment before handed on (``Carry()`` for the first); ``later`` has the id that the following
    segment tells first, by topic (incarnations.first_told).
    """
    conversion = _Conversion(carry)
    for batch in batches:
        for fact in batch:
            conversion.take(fact)
    return conversion.result(cluster, later or {})


class _Conversion:
    def __init__(self, carry: Carry) -> None:
        self._carry = carry
        self._open: dict[Identity, _Probe] = {  # a carried probe lies before all samples of this segment
            identity: _Probe(one.topic, one.mode, one.transaction_id, one.sent_at_ns, Place(one.topic_id, 0))
            for identity, one in carry.probes.items()
        }
        self._probes: dict[Identity, _Probe] = {}
        self._open_transactions = dict(carry.transactions)
        self._transactions: dict[TransactionKey, _Transaction] = {}
        self._polls: list[tuple[f.Polled, Place]] = []
        self._incarnations = Incarnations(carry.topic_ids, carry.dead_ids)
        self._modes = dict(carry.modes)
        self._marked: dict[int, dict[int, str | None]] = {}
        for (producer_id, generation), topic_id in carry.marked.items():
            self._marked.setdefault(producer_id, {})[generation] = topic_id
        self._first_at_ns: int | None = None
        self._voided = 0

    def take(self, fact: f.Fact) -> None:
        if self._first_at_ns is None:
            self._first_at_ns = fact.at_ns
        match fact:
            case f.Polled():
                self._polls.append((fact, self._here(fact)))
            case f.Sent():
                probe = _Probe(fact.topic, fact.mode, fact.transaction_id, fact.at_ns, self._here(fact))
                self._probes[_identity(fact)] = self._open[_identity(fact)] = probe
            case f.Acked() | f.Failed() | f.Indeterminate():
                self._resolve(fact)
            case f.WatchAsked() | f.TopicSeen() | f.TopicGone():
                self._incarnations.take(fact)
            case f.TransactionBegan() | f.CommitAsked() | f.Committed() | f.Aborted() | f.TransactionIndeterminate():
                self._transaction(fact)
            case f.GenerationBegan():
                self._began(fact)
            case f.RunnerStarted():
                self._restarted()
            case _:
                pass  # evidence of other kinds: not in the probe log

    def _began(self, fact: f.GenerationBegan) -> None:
        self._modes[fact.producer_id] = fact.mode
        # Delivery reports of the generation before may still come; an older generation has none under way.
        oldest = (fact.producer_id, fact.generation - 1)
        for identity in [i for i in self._open if i.producer_id == oldest[0] and i.generation < oldest[1]]:
            del self._open[identity]
        if fact.topic_id != self._mark(fact):
            self._marked.setdefault(fact.producer_id, {})[fact.generation] = fact.topic_id

    def _mark(self, fact: f.GenerationBegan | f.Polled | f.Sent | Outcome) -> str | None:
        """Return the topic id in the records of a generation, None if it is not known."""
        marks = self._marked.get(fact.producer_id, {})
        return marks.get(max((since for since in marks if since <= fact.generation), default=-1))

    def _here(self, fact: f.Polled | f.Sent | Outcome) -> Place:
        here = self._incarnations.here(fact.topic)
        return Place(self._mark(fact) or here.seen, here.asked)

    def _resolve(self, fact: Outcome) -> None:
        identity = _identity(fact)
        probe = self._open.pop(identity, None) or self._probes.get(identity)
        if probe is None:  # its Sent was lost with a damaged segment, or it had a worse outcome in an earlier segment
            sent_at_ns = fact.at_ns - (fact.latency_ns or 0) if isinstance(fact, f.Acked) else fact.at_ns
            mode = self._modes.get(fact.producer_id, _UNKNOWN_MODE)
            probe = _Probe(fact.topic, mode, None, sent_at_ns, self._here(fact))
        self._probes[identity] = probe
        if probe.outcome == "acked":  # a second report
            return
        probe.resolved = self._incarnations.here(fact.topic)
        if isinstance(fact, f.Acked):
            probe.outcome, probe.offset, probe.acked_at_ns, probe.error = "acked", fact.offset, fact.at_ns, None
        else:
            probe.outcome = "failed" if isinstance(fact, f.Failed) else "indeterminate"
            probe.error = fact.error

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
        self._open.clear()
        for key, known in self._open_transactions.items():
            self._transactions[key] = _Transaction(*known, "indeterminate", None, "the canary ended before it knew")
        self._open_transactions.clear()

    def result(self, cluster: str, later: Mapping[str, str]) -> Converted:
        rows = {
            "polls": self._poll_rows(cluster, later),
            "transactions": [(cluster, *key, *row) for key, row in self._transactions.items()],
            "probes": self._probe_rows(cluster, later),
        }
        carry = Carry(
            self._carry.ledger_id,
            self._carry.segment,
            {
                identity: OpenProbe(one.topic, one.sent.seen, one.mode, one.transaction_id, one.sent_at_ns)
                for identity, one in self._open.items()
            },
            self._open_transactions,
            self._incarnations.seen(),
            self._incarnations.dead(),
            self._modes,
            {(producer, since): mark for producer, marks in self._marked.items() for since, mark in marks.items()},
        )
        tables = {name: _table(name, some) for name, some in rows.items()}
        return Converted(tables, carry, self._first_at_ns, self._voided)

    def _probe_rows(self, cluster: str, later: Mapping[str, str]) -> list[tuple[Any, ...]]:
        rows = []
        for identity, one in self._probes.items():
            topic_id = self._incarnations.enclosed(one.topic, one.sent, one.resolved or one.sent, later)
            outcome = one.outcome, one.offset, one.acked_at_ns, None, one.error
            if topic_id == UNKNOWN:
                topic_id = None
                if one.outcome == "acked":
                    self._voided += 1
                    why = f"acked at offset {one.offset}, in an unknown incarnation of the topic"
                    outcome = "indeterminate", None, None, None, why
            place = cluster, one.topic, topic_id, identity.partition
            who = identity.producer_id, identity.generation, identity.sequence
            rows.append((*place, *who, one.mode, one.transaction_id, one.sent_at_ns, *outcome))
        return rows

    def _poll_rows(self, cluster: str, later: Mapping[str, str]) -> list[tuple[Any, ...]]:
        rows = []
        for fact, place in self._polls:
            topic_id = self._incarnations.enclosed(fact.topic, place, place, later)
            if topic_id == UNKNOWN:
                self._voided += 1
                continue
            read = cluster, fact.topic, topic_id, fact.partition, fact.consumer, fact.isolation, fact.offset
            who = fact.producer_id, fact.generation, fact.sequence
            rows.append((*read, *who, fact.at_ns, fact.leader_epoch))
        return rows


def _identity(fact: f.Sent | Outcome) -> Identity:
    return Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence)


def _table(name: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    """Return rows (times in ns) as the table ``name``, sorted."""
    schema = SCHEMAS[name]
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

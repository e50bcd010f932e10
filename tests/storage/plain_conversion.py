"""The rules of storage.probe_log.converting once more, fact by fact and without regard to cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from canary import facts as f
from canary.probe.identity import Identity
from storage.probe_log.carry import Carry, OpenProbe, OpenTransaction, TransactionKey
from storage.probe_log.converting import Converted
from storage.probe_log.incarnations import UNKNOWN, Incarnations, Place
from storage.probe_log.schemas import SCHEMAS, SORTED_BY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Outcome: TypeAlias = f.Acked | f.Failed | f.Indeterminate
Ended: TypeAlias = f.Committed | f.Aborted | f.TransactionIndeterminate
OUTCOMES = {f.Acked: "acked", f.Failed: "failed", f.Committed: "committed", f.Aborted: "aborted"}


def plainly(facts: Iterable[f.Fact], *, cluster: str, carry: Carry, later: Mapping[str, str]) -> Converted:
    """Convert as storage.probe_log.converting.convert does."""
    conversion = Conversion(carry)
    known = []
    for fact in facts:
        if isinstance(fact, f.RunnerStarted | f.ClockSeen):
            conversion.clock_ahead_ns = fact.clock_ahead_ns or 0
        known.append(replace(fact, at_ns=fact.at_ns + conversion.clock_ahead_ns))
    for fact in known:
        conversion.take(fact)
    return conversion.result(cluster, later, known[0].at_ns if known else None)


@dataclass
class Probe:
    """A row of probes/ in the making."""

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


class Conversion:
    """The state between two facts."""

    def __init__(self, carry: Carry) -> None:
        self.carry = carry
        self.open = {
            identity: Probe(one.topic, one.mode, one.transaction_id, one.sent_at_ns, Place(one.topic_id, 0))
            for identity, one in carry.probes.items()
        }
        self.probes: dict[Identity, Probe] = {}
        self.polls: list[tuple[f.Polled, Place]] = []
        self.open_transactions = dict(carry.transactions)
        self.transactions: dict[TransactionKey, tuple[Any, ...]] = {}
        self.incarnations = Incarnations(
            carry.topic_ids, carry.dead_ids, carry.cluster_id, elsewhere=carry.elsewhere, in_doubt=carry.in_doubt
        )
        self.modes = dict(carry.modes)
        self.marked = dict(carry.marked)
        self.clock_ahead_ns = carry.clock_ahead_ns

    def take(self, fact: f.Fact) -> None:
        match fact:
            case f.Polled():
                self.polls.append((fact, self.here(fact)))
            case f.Sent():
                probe = Probe(fact.topic, fact.mode, fact.transaction_id, fact.at_ns, self.here(fact))
                self.probes[identity_of(fact)] = self.open[identity_of(fact)] = probe
            case f.Acked() | f.Failed() | f.Indeterminate():
                self.resolve(fact)
            case f.WatchAsked() | f.TopicSeen() | f.TopicGone() | f.ClusterMet() | f.ClusterSeen():
                self.incarnations.take(fact)
            case f.GenerationBegan():
                self.began(fact)
            case f.RunnerStarted():
                self.incarnations.take(fact)
                self.open.clear()
                for key, known in self.open_transactions.items():
                    self.transactions[key] = (*known, "indeterminate", None, "the canary ended before it knew")
                self.open_transactions.clear()
            case _:
                self.transaction(fact)

    def transaction(self, fact: f.Fact) -> None:
        match fact:
            case f.TransactionBegan():
                self.open_transactions[transaction_of(fact)] = OpenTransaction(fact.at_ns, None)
            case f.CommitAsked():
                known = self.open_transactions.get(transaction_of(fact), OpenTransaction(fact.at_ns, None))
                self.open_transactions[transaction_of(fact)] = OpenTransaction(known.began_at_ns, fact.at_ns)
            case f.Committed() | f.Aborted() | f.TransactionIndeterminate():
                key = transaction_of(fact)
                known = self.open_transactions.pop(key, OpenTransaction(fact.at_ns, None))
                began_at_ns, commit_at_ns = self.transactions.get(key, known)[:2]
                outcome, error = OUTCOMES.get(type(fact), "indeterminate"), getattr(fact, "error", None)
                self.transactions[key] = (began_at_ns, commit_at_ns, outcome, fact.at_ns, error)
            case _:
                pass

    def began(self, fact: f.GenerationBegan) -> None:
        self.modes[fact.producer_id] = fact.mode
        for one in list(self.open):
            if one.producer_id == fact.producer_id and one.generation < fact.generation - 1:
                del self.open[one]
        if fact.topic_id != self.mark(fact):
            self.marked[fact.producer_id, fact.generation] = fact.topic_id

    def mark(self, fact: f.GenerationBegan | f.Polled | f.Sent | Outcome) -> str | None:
        marks = {since: mark for (producer, since), mark in self.marked.items() if producer == fact.producer_id}
        return marks.get(max((since for since in marks if since <= fact.generation), default=-1))

    def here(self, fact: f.Polled | f.Sent | Outcome) -> Place:
        here = self.incarnations.here(fact.topic)
        return Place(self.mark(fact) or here.seen, here.asked)

    def resolve(self, fact: Outcome) -> None:
        probe = self.open.pop(identity_of(fact), None) or self.probes.get(identity_of(fact))
        if probe is None:
            sent_at_ns = fact.at_ns - (getattr(fact, "latency_ns", None) or 0)
            mode = self.modes.get(fact.producer_id, "unknown")
            probe = Probe(fact.topic, mode, None, sent_at_ns, self.here(fact))
        self.probes[identity_of(fact)] = probe
        if probe.outcome == "acked":
            return
        probe.resolved = self.incarnations.here(fact.topic)
        probe.outcome, probe.error = OUTCOMES.get(type(fact), "indeterminate"), getattr(fact, "error", None)
        if isinstance(fact, f.Acked):
            probe.offset, probe.acked_at_ns = fact.offset, fact.at_ns

    def result(self, cluster: str, later: Mapping[str, str], first_at_ns: int | None) -> Converted:
        probes, polls, voided = [], [], 0
        for identity, one in self.probes.items():
            topic_id = self.incarnations.enclosed(one.topic, one.sent, one.resolved or one.sent, later)
            outcome = one.outcome, one.offset, one.acked_at_ns, None, one.error
            if topic_id == UNKNOWN and one.outcome == "acked":
                voided += 1
                why = f"acked at offset {one.offset}, in an unknown incarnation of the topic"
                outcome = "indeterminate", None, None, None, why
            place = cluster, one.topic, None if topic_id == UNKNOWN else topic_id, identity.partition
            who = identity.producer_id, identity.generation, identity.sequence
            probes.append((*place, *who, one.mode, one.transaction_id, one.sent_at_ns, *outcome))
        for poll, seen in self.polls:
            topic_id = self.incarnations.enclosed(poll.topic, seen, seen, later, read=True)
            if topic_id == UNKNOWN:
                voided += 1
                continue
            read = cluster, poll.topic, topic_id, poll.partition, poll.consumer, poll.isolation, poll.offset
            polls.append((*read, poll.producer_id, poll.generation, poll.sequence, poll.at_ns, poll.leader_epoch))
        transactions = [(cluster, *key, *row) for key, row in self.transactions.items()]
        carry = Carry(
            self.carry.ledger_id,
            self.carry.segment,
            {
                identity: OpenProbe(one.topic, one.sent.seen, one.mode, one.transaction_id, one.sent_at_ns)
                for identity, one in self.open.items()
            },
            self.open_transactions,
            self.incarnations.seen(),
            self.incarnations.dead(),
            self.modes,
            self.marked,
            self.clock_ahead_ns,
            self.incarnations.cluster_id,
            self.incarnations.elsewhere,
            self.incarnations.in_doubt,
        )
        rows: dict[str, list[tuple[Any, ...]]] = {"probes": probes, "polls": polls, "transactions": transactions}
        return Converted({name: table(name, some) for name, some in rows.items()}, carry, first_at_ns, voided)


def identity_of(fact: f.Sent | Outcome) -> Identity:
    return Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence)


def transaction_of(fact: f.TransactionBegan | f.CommitAsked | Ended) -> TransactionKey:
    return (fact.producer_id, fact.generation, fact.transaction_id)


def table(name: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    """Return rows (times in ns) as a sorted table."""
    schema = SCHEMAS[name]
    columns = [
        [value if value is None or not pa.types.is_timestamp(field.type) else value // 1000 for value in values]
        for field, values in zip(schema, zip(*rows, strict=True) if rows else [()] * len(schema), strict=True)
    ]
    made = pa.table([pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema)
    return made.sort_by([(key, "ascending") for key in SORTED_BY[name]])

"""The canary's facts told again as a history, so that the checker of histories can be held against the tracker.

A producer's generation is a process: its sends, and its transactions, are operations in the order in which they were
sent. A consumer in a partition is a process from each positioning to the next; what it was given with nobody else in
between is a poll, and a re-read is a process of its own. A delivery between a transaction's begin and the request for
its commit happened within that transaction, and the first is a poll of it, too.

What a read_uncommitted consumer was given is told of modes without transactions only, each record by an operation of
unknown outcome: it says what stands where, and is no credit to anybody. All sends come before all polls: no rule that
both engines know asks for the order between a send and a poll, but the one about commits, which is told as above.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from canary import facts as f
from canary.probe.identity import Identity
from simulation.histories.clockwork import RC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from canary.anomalies.violation import Violation
    from simulation.histories.clockwork import Op

KeyOf = "Callable[[Identity], str]"
TransactionKey = tuple[int, int, int]
"""producer_id, generation, transaction_id."""


def value_of(identity: Identity) -> str:
    """Return the value that stands for an identity in the history."""
    return f"{identity.producer_id}/{identity.generation}/{identity.partition}/{identity.sequence}"


def identity_of(value: str) -> Identity:
    """Return the identity that ``value`` stands for."""
    return Identity(*(int(part) for part in value.split("/")))


class Retelling:
    """Facts in, operations out.

    Attributes:
        transaction_of: Identity to its transaction.
        told: The operations.
    """

    def __init__(self, facts: Sequence[f.Fact], key_of: Callable[[Identity], str]) -> None:
        self._key_of = key_of
        self.transaction_of: dict[Identity, TransactionKey] = {}
        self.indeterminate: set[Identity] = set()
        self.given: set[Identity] = set()
        self._sends: dict[tuple[int, int], list[list[Identity]]] = defaultdict(list)
        self._outcomes: dict[Identity, f.Acked | f.Failed | f.Indeterminate] = {}
        self._open: dict[TransactionKey, list[Identity]] = {}
        self._ended: dict[TransactionKey, str] = {}
        self._asked: set[TransactionKey] = set()
        self._within: dict[TransactionKey, tuple[int, Identity]] = {}
        self._polls: list[tuple[int, str, list[tuple[int, Identity]]]] = []
        self._process: dict[tuple[str, int], int] = {}
        self._processes = 0
        for fact in facts:
            self._take(fact)
        self.told = self._tell()

    def _take(self, fact: f.Fact) -> None:
        match fact:
            case f.RunnerStarted():
                self._asked |= set(self._open)  # what a dead process asked for last, nobody knows
            case f.TransactionBegan():
                writes: list[Identity] = []
                self._open[fact.producer_id, fact.generation, fact.transaction_id] = writes
                self._sends[fact.producer_id, fact.generation].append(writes)
            case f.Sent():
                self._sent(fact)
            case f.Acked() | f.Failed() | f.Indeterminate():
                identity = Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence)
                self._outcomes[identity] = fact
                if isinstance(fact, f.Indeterminate):
                    self.indeterminate.add(identity)
            case f.CommitAsked():
                self._asked.add((fact.producer_id, fact.generation, fact.transaction_id))
            case f.Committed() | f.Aborted():
                kind = "ok" if isinstance(fact, f.Committed) else "fail"
                self._ended[fact.producer_id, fact.generation, fact.transaction_id] = kind
            case f.Positioned():
                self._process.pop((fact.consumer, fact.partition), None)
            case f.Polled():
                self._polled(fact)

    def _sent(self, fact: f.Sent) -> None:
        identity = Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence)
        if fact.transaction_id is None:
            self._sends[fact.producer_id, fact.generation].append([identity])
            return
        key = (fact.producer_id, fact.generation, fact.transaction_id)
        self.transaction_of[identity] = key
        self._open[key].append(identity)

    def _polled(self, fact: f.Polled) -> None:
        identity = Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence)
        record = (fact.offset, identity)
        if fact.isolation != RC:
            if fact.transaction_id is None:
                self._polls.append((self._new_process(), "info", [record]))
            return
        self.given.add(identity)
        place = (fact.consumer, fact.partition)
        process = self._process.get(place)
        if process is None:
            process = self._process[place] = self._new_process()
        last = self._polls[-1] if self._polls else None
        if last is not None and last[0] == process:
            last[2].append(record)
        else:
            self._polls.append((process, "ok", [record]))
        transaction = (fact.producer_id, fact.generation, fact.transaction_id or 0)
        if fact.transaction_id is not None and transaction not in self._asked and transaction not in self._ended:
            self._within.setdefault(transaction, record)

    def _new_process(self) -> int:
        self._processes += 1
        return self._processes

    def _tell(self) -> list[Op]:
        operations: list[Op] = []

        def add(process: int, kind: str, function: str, value: Any) -> None:
            index = len(operations)
            operations.append(
                {"index": index, "time": index, "process": process, "type": kind, "f": function, "value": value}
            )

        for groups in self._sends.values():
            process = self._new_process()
            for group in groups:
                if not group:
                    continue
                transaction = self.transaction_of.get(group[0])
                function = "send" if transaction is None else "txn"
                kind = self._kind(group[0]) if transaction is None else self._ended.get(transaction, "info")
                early = [] if transaction is None or transaction not in self._within else [self._within[transaction]]
                within = [["poll", {self._key_of(i): [[o, value_of(i)]]}] for o, i in early]
                asked = [["send", self._key_of(i), value_of(i)] for i in group]
                add(process, "invoke", function, [*asked, *(["poll"] for _ in within)])
                add(process, kind, function, [*(self._done(i) for i in group), *within])
        for process, kind, records in self._polls:
            by_key: dict[str, list[list[Any]]] = defaultdict(list)
            for offset, identity in records:
                by_key[self._key_of(identity)].append([offset, value_of(identity)])
            add(process, "invoke", "poll", [["poll"]])
            add(process, kind, "poll", [["poll", by_key]])
        return operations

    def _kind(self, identity: Identity) -> str:
        outcome = self._outcomes.get(identity)
        return {f.Acked: "ok", f.Failed: "fail"}.get(type(outcome), "info")

    def _done(self, identity: Identity) -> list[Any]:
        outcome = self._outcomes.get(identity)
        value = value_of(identity)
        sent = [outcome.offset, value] if isinstance(outcome, f.Acked) else value
        return ["send", self._key_of(identity), sent]


def one_by_one(violation: Violation) -> Iterator[Violation]:
    """Yield a violation for each record of ``violation``."""
    for run in violation.runs:
        for i in range(run.size):
            yield violation.about([run.part(i, 1)])

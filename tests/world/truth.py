"""What really happened, held against what the canary said.

The truth has two ends. The cluster tells which records were appended, and which of them the log lacks since, and why;
a later leader may have them after all. The canary's own ledger tells what was promised: an acknowledgement that became
durable, or a commit. So a promise is broken exactly when its record is gone and no other copy of it is left. A probe is
rightly called lost when there was a time, since it was last written, at which that was so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from canary.anomalies.policy import WRITES_LOST
from canary.facts import Acked, Committed, Fact, Sent
from canary.probe.identity import Identity
from canary.probe.record import key

if TYPE_CHECKING:
    from canary.anomalies.violation import Violation

EXPIRED = frozenset({"expired", "deleted", "topic deleted"})
"""Why a record is gone though nothing was broken: retention, DeleteRecords, a deleted topic."""


@dataclass(slots=True)
class Fate:
    """What became of the copies of one probe. ``gone`` is when and why the last copy went; maybe it is back since."""

    copies: int = 0
    gone: tuple[float, str] | None = None
    offset: int = -1
    at: float = 0.0
    topic_id: str = ""
    was_lost: bool = False
    """Since it was last written there was a time at which no copy was left, for another reason than its age."""


@dataclass(slots=True)
class Truth:
    """Gathers both ends of one life; ``now`` returns virtual seconds."""

    now: Any
    fates: dict[bytes, Fate] = field(default_factory=dict)
    promised: dict[bytes, float] = field(default_factory=dict)
    """Probes with a durable promise, and when it became durable."""
    said: dict[bytes, list[Violation]] = field(default_factory=lambda: defaultdict(list))
    """By probe, the violations that name it."""
    false_losses: list[tuple[bytes, Violation]] = field(default_factory=list)
    """Probes that were called lost and were there, or had expired."""
    violations: list[tuple[float, Violation]] = field(default_factory=list)
    memory_lost: list[float] = field(default_factory=list)
    deaf: list[str] = field(default_factory=list)
    """Harms that excuse silence: what they did to the canary's own memory."""
    durable_at: float | None = None
    """When facts became durable last."""
    _in_transaction: dict[tuple[int, int, int], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    _transaction_of: dict[bytes, tuple[int, int, int] | None] = field(default_factory=dict)
    _committed: set[tuple[int, int, int]] = field(default_factory=set)

    # the cluster's end

    def appended(self, topic: str, topic_id: str, partition: int, record: Any) -> None:  # noqa: ARG002  # a hook's shape
        """Note a copy of a probe in a log."""
        if record.key is None or record.control is not None:
            return
        fate = self.fates.get(record.key)
        if fate is None:
            fate = self.fates[record.key] = Fate()
        fate.copies += 1
        fate.offset, fate.at, fate.topic_id, fate.was_lost = record.offset, self.now(), topic_id, False

    def lost(self, topic: str, topic_id: str, partition: int, records: Sequence[Any], how: str) -> None:  # noqa: ARG002
        """Note records that the log lacks now."""
        for record in records:
            if how == "never written":
                self.fates.setdefault(record.key, Fate(0, None, record.offset, self.now(), topic_id)).copies += 1
            fate = self.fates.get(record.key)
            if fate is not None and record.control is None:
                fate.copies -= 1
                if fate.copies <= 0:
                    fate.gone = (self.now(), how)
                    fate.was_lost |= how not in EXPIRED

    def returned(self, _topic: str, _topic_id: str, _partition: int, records: Sequence[Any]) -> None:
        """Note lost records that a later leader has after all."""
        for record in records:
            fate = self.fates.get(record.key)
            if fate is not None and record.control is None:
                fate.copies += 1

    # the canary's end

    def durable(self, facts: Iterable[Fact]) -> None:
        """Note promises that are in the canary's ledger."""
        self.durable_at = self.now()
        for fact in facts:
            if isinstance(fact, Sent):
                if fact.transaction_id is not None:
                    where = (fact.producer_id, fact.generation, fact.transaction_id)
                    self._transaction_of[_key(fact)] = where
            elif isinstance(fact, Acked):
                name = _key(fact)
                whole = self._transaction_of.pop(name, None)
                if whole is None or whole in self._committed:
                    self.promised.setdefault(name, self.now())
                else:
                    self._in_transaction[whole].append(name)
            elif isinstance(fact, Committed):
                where = (fact.producer_id, fact.generation, fact.transaction_id)
                self._committed.add(where)
                for name in self._in_transaction.pop(where, ()):
                    self.promised.setdefault(name, self.now())

    def told(self, found: Iterable[Violation]) -> None:
        """Note what the canary delivers to its store."""
        for violation in found:
            self.violations.append((self.now(), violation))
            if violation.kind == "memory-lost":
                self.memory_lost.append(self.now())
            for run in violation.runs:
                if run.identity is not None:
                    for step in range(run.size):
                        name = key(run.identity._replace(sequence=run.identity.sequence + step))
                        self.said[name].append(violation)
                        fate = self.fates.get(name)
                        if violation.kind == WRITES_LOST and fate is not None and not fate.was_lost:
                            self.false_losses.append((name, violation))

    # held against each other

    def broken(self) -> dict[bytes, Fate]:
        """Return every probe whose promise was broken."""
        return {
            name: fate
            for name in self.promised
            if (fate := self.fates.get(name)) is not None
            and fate.copies <= 0
            and fate.gone
            and fate.gone[1] not in EXPIRED
        }

    def is_said(self, name: bytes, *kinds: str) -> bool:
        """Whether a violation of one of the kinds names the probe; of any kind where none is given."""
        return any(not kinds or one.kind in kinds for one in self.said.get(name, ()))


def _key(fact: Any) -> bytes:
    return key(Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence))

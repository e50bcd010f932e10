"""The clockwork of a simulated life: time, chance, what is noted down, and the state that everybody shares."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from simulation.histories.kafka import Entry, Log, Transaction
from simulation.histories.wild import seeded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from canary import facts as f
    from canary.anomalies.violation import RereadRequest
    from canary.probe.identity import Identity

TOPIC = "probes"
BASE_NS = 1_790_000_000_000_000_000
MS = 1_000_000
SECOND = 1_000 * MS
RC, RU = "read_committed", "read_uncommitted"
RETENTION_MS = 5_000

Op = dict[str, Any]
Found = list[tuple[int, Entry]]
Listener = "Callable[[Sequence[f.Fact]], Sequence[RereadRequest]]"


@dataclass(frozen=True)
class Injected:
    """A truth: what was broken, where, and which of the two lenses can know."""

    kind: str
    key: str
    partition: int
    offset: int | None
    value: int | None
    identity: Identity | None
    history: bool = True
    facts: bool = True
    certain: bool = True
    """False: it may be said and need not be, because no outcome of the transaction was reported."""


@dataclass
class World:
    """A life as it was lived."""

    seed: int
    sub_via: frozenset[str]
    injected: list[Injected]
    identities: dict[int, Identity]
    homes: dict[Identity, str]
    """The key that each was sent to: partitions of another incarnation are other keys."""
    void: frozenset[str]
    """Keys of an incarnation that is gone."""
    _operations: list[Op]
    _facts: list[f.Fact]

    def history(self) -> list[Op]:
        """Return the history, final reads included."""
        return self._operations

    def facts(self) -> list[f.Fact]:
        """Return the facts in the order of the queue."""
        return self._facts


@dataclass
class Producer:
    """One of the canary's producers; several of the history's processes send through it."""

    mode: str
    producer_id: int
    generation: int = 1
    sequences: dict[int, int] = field(default_factory=dict)
    last_append: dict[int, int] = field(default_factory=dict)
    transaction_id: int = 0

    @property
    def transactional(self) -> bool:
        """Whether it writes in transactions."""
        return self.mode in ("transactional", "relay")


@dataclass
class Process:
    """A process of the history with its consumer: ``positions`` moves with ok operations only."""

    number: int
    thread: int
    positions: dict[int, int] = field(default_factory=dict)
    last: dict[int, tuple[int, Entry]] = field(default_factory=dict)
    """What an ok operation delivered last, by partition."""
    incarnation: int = 1
    """Of the topic that it has assigned."""


class Twist(Protocol):
    """Something wrong with one transaction, which sends to every partition at its end."""

    fate: str

    def appended(
        self, life: Any, log: Log, offset: int, value: int, positions: dict[int, int]
    ) -> dict[str, Any] | None:
        """Its last write was appended; return what it polls thereupon, if it does."""

    def ending(self, life: Any, transaction: Transaction, logs: list[Log]) -> None:
        """It is about to be marked."""

    def ended(self, life: Any, kind: str) -> None:
        """Its process was told: ok, fail or info."""


class Clockwork:
    """Time, chance and state; what happens is in the classes that build on it."""

    def __init__(self, seed: int, duration_s: float, partitions: int, listener: Any = None) -> None:
        self.seed = seed
        self.random = seeded(seed)
        self.listener = listener
        self.duration = int(duration_s * SECOND)
        self.now = 0
        self.heap: list[tuple[int, int, Callable[[], None]]] = []
        self.count = 0
        self.operations: list[Op] = []
        self.facts: list[f.Fact] = []
        self.new_facts: list[f.Fact] = []
        self.identities: dict[int, Identity] = {}
        self.injected: list[Injected] = []
        self.incarnation = 1
        self.seen_incarnation = 1  # what the runner knows of
        self.known_id = "incarnation-1"  # what its readers and writers know of
        self.gone = False  # the topic is deleted, and not yet made again
        self.void: set[str] = set()
        self.first_generation = 1
        """Of the present incarnation: what older ones wrote, before anybody knew of it, promised nothing there."""
        self.homes: dict[Identity, str] = {}
        self.logs = [Log(p, str(p)) for p in range(partitions)]
        self.producers = [
            Producer(mode, 7_000_000_000 + 1000 * seed + n)
            for n, mode in enumerate(("idempotent", "plain", "transactional", "relay"))
        ]
        self.injector = Producer("group", 7_000_000_000 + 1000 * seed + 999)  # writes nothing but what injections want
        self.producers.append(self.injector)
        self.threads = 6
        self.next_process = dict.fromkeys(range(self.threads), 0)
        self.tails = {(consumer, p): 0 for consumer in (RC, RU) for p in range(partitions)}
        self.sample = 0
        self.isr = "1,2,3"
        self.life = 1  # how often the runner was started
        self.stopping = False
        self.group: dict[int, int] = {}
        self.group_owner: dict[int, int] = {}
        self.main = Process(-1, 0)
        self.sub_via = frozenset({"assign"})
        self.sent_at: dict[int, int] = {}
        self.twists: list[Twist] = []  # what is to go wrong in a transaction, taken by the next one to begin
        self.missteps: dict[str, Callable[[Log, Found, tuple[int, Entry] | None], Found | None]] = {}
        self.tail_last: dict[int, tuple[int, Entry]] = {}
        self.fates = {"ok": 80, "doubtful-there": 6, "doubtful-not-there": 6, "failed": 4, "no-offset": 4}
        self.commits = {"commit": 65, "abort": 20, "doubtful-commit": 8, "doubtful-abort": 7}

    # the clockwork

    def at(self, delay: int, event: Callable[[], None]) -> None:
        """Let ``event`` happen ``delay`` ns from now."""
        self.count += 1
        heapq.heappush(self.heap, (self.now + max(delay, 1), self.count, event))

    def ms(self, low: float, high: float) -> int:
        """Return a random time between two, in ns."""
        return int(self.random.uniform(low, high) * MS)

    def fact(self, kind: type[f.Fact], *fields: Any, **named: Any) -> None:
        """Note a fact of the canary."""
        self.new_facts.append(kind(BASE_NS + self.now, *fields, **named))

    def run(self) -> None:
        """Live until nothing is left to happen."""
        while self.heap:
            time, _, event = heapq.heappop(self.heap)
            self.now = max(self.now + 1, time)
            event()
            self.flush()

    def flush(self) -> None:
        """Hand the facts of an event to whoever listens, and answer later what is asked."""
        while self.new_facts:
            facts, self.new_facts = self.new_facts, []
            self.facts += facts
            if self.listener is not None:
                for request in self.listener(facts):
                    self.at(self.ms(5, 200), lambda r=request: self.answer(r))  # type: ignore[misc]

    def record(self, process: int | str, kind: str, function: str, value: Any, **more: Any) -> Op:
        """Add an operation to the history."""
        op = {
            "index": len(self.operations),
            "time": self.now,
            "process": process,
            "type": kind,
            "f": function,
            "value": value,
            **more,
        }
        self.operations.append(op)
        return op

    def new_process(self, thread: int) -> int:
        """Return the number of a new process of a thread."""
        number = thread + self.threads * self.next_process[thread]
        self.next_process[thread] += 1
        return number

    # what the parts do for each other

    def answer(self, request: RereadRequest) -> None:
        """Answer a re-read; see Reading."""
        raise NotImplementedError(request)

    def poll_by(self, positions: dict[int, int], limit: int, partitions: Sequence[int] | None = None) -> dict[str, Any]:
        """Read on; see Reading."""
        raise NotImplementedError(positions, limit, partitions)

    def assign(self, process: Process) -> None:
        """Assign everything; see Reading."""
        raise NotImplementedError(process)

    def replace(self, process: Process) -> None:
        """Let a new process go on; see Writing."""
        raise NotImplementedError(process)

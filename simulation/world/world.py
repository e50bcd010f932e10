"""One life of a canary in a simulated world, and the verdict on it."""

from __future__ import annotations

import contextlib
import logging
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import fsspec
import structlog

from canary.anomalies.policy import WRITES_LOST
from canary.facts import each
from canary.kafka import opening
from canary.runner.cluster.cluster import ClusterRunner
from canary.threads import system
from canary.workloads.catalogue import WORKLOADS
from simulation.clients import SimulatedKafka
from simulation.cluster.cluster import Cluster
from simulation.harms.catalogue import HARMS
from simulation.life.coverage import states
from simulation.machine.disk import LyingDisk
from simulation.machine.schedule import Process, Schedule
from simulation.machine.store import LyingStore
from simulation.machine.system import SimulatedSystem
from simulation.verdicts.agreement import disagreements, stopped
from simulation.verdicts.costs import Costs
from simulation.verdicts.justified import false
from simulation.verdicts.watch import Watch
from simulation.world.chronicle import Chronicle
from simulation.world.plan import ORDERS, Plan, Strike
from simulation.world.truth import EXPIRED, Truth
from storage.ledger import Ledger
from storage.probe_log import shipping
from storage.probe_log.converting import Converted
from storage.store.cursors import MAX_LIMIT
from storage.store.repositories.violations import Violations
from storage.store.values import StoredViolation

AGAIN_S = 5.0
"""After so long a canary that has ended is started again, as any service manager does."""
LOOK_BEATS, HARMED_BEATS = 60, 10
"""A loss is to be found within so many intervals without harm, each harm counted as so many longer than it lasts;
in some lives within more (`World.look_beats`)."""
FOUND_BEATS = 5
"""So many intervals after its turn at the latest the scrubber's chunk is read, and what it lacks is confirmed."""
HUNG_BEATS = 3
"""A transaction that is open for more intervals hangs."""
PROOF_BEATS = 120
"""So many intervals after the last harm records are lost once more: whatever it went through, the canary finds it."""
PROOF_SHARES = (0.01, 0.5)
"""This share of them."""
SETTLE_BEATS = 240
"""For so many intervals a life goes on after the last harm: by then all must be known, and said."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """One thing that went wrong in a life: a verdict of docs/testing.md (MISSED, FALSE, ...), and about what."""

    what: str
    about: str


@dataclass(slots=True)
class Outcome:
    """What came of a life. ``seconds`` are virtual; ``broken`` counts promises that were broken."""

    plan: Plan
    wrong: list[Wrong] = field(default_factory=list)
    seconds: float = 0.0
    promises: int = 0
    broken: int = 0
    steps: int = 0
    story: list[tuple[float, str]] = field(default_factory=list)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(harm, state of the tracker when it struck), and how often."""


class World:
    """All that a life consists of. Harms act on it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.settings = plan.settings()
        self.schedule = Schedule(plan.grain)
        dice = random.Random(plan.seed)
        self.system = SimulatedSystem(self.schedule, random.Random(dice.getrandbits(64)))
        self.cluster = Cluster(self.schedule, random.Random(dice.getrandbits(64)))
        self.disk = LyingDisk(self.schedule, random.Random(dice.getrandbits(64)))
        self.store = LyingStore(self.schedule, random.Random(dice.getrandbits(64)))
        self.truth = Truth(lambda: self.schedule.now, cluster_id=self.cluster.cluster_id)
        self.truth.halt = lambda: setattr(self.schedule, "halted", True)
        self.outcome = Outcome(plan)
        self.facts: list[Any] = []
        """What the canary's ledger made durable, in its order."""
        self.costs = Costs(self)
        self.process = Process("canary-0")
        self.runner: ClusterRunner | None = None
        self.chronicle = Chronicle(lambda: self.schedule.now)
        self.hung_at: dict[tuple[str, int], float] = {}
        """By (topic, partition), when a transaction was seen last that hangs there."""
        self.clocks = {0}
        """What ``clock_ns`` ever was."""
        self._clock_ns = 0
        self.starts = 0
        self.over = self.settling = False
        self.switched_off: frozenset[str] = frozenset()
        """Modes that are in the plan, and no more (or not now) in the canary's settings."""
        self.settle_beats = SETTLE_BEATS
        self.log_level = logging.CRITICAL
        """What the canary logs from this level on is printed."""
        self._ends: dict[int, Any] = {}
        self._pending_start = False
        self._silent_since = 0.0
        self._began = 0.0

    # for harms

    @property
    def clock_ns(self) -> int:
        """What the canary's machine adds to the right time."""
        return self._clock_ns

    @clock_ns.setter
    def clock_ns(self, value: int) -> None:
        self._clock_ns = value
        self.clocks.add(value)

    def topics(self) -> list[str]:
        """Return the probe topics that there are to be."""
        return self._topics_of(self.plan.modes)

    def _topics_of(self, modes: Iterable[str]) -> list[str]:
        return [self.topic_of(mode) for mode in modes]

    def topic_of(self, mode: str) -> str:
        """Return the probe topic of a mode."""
        return self.settings.clusters[0].topic_of(mode)

    def modes_on(self) -> tuple[str, ...]:
        """Return the modes that are in the canary's settings now: without those whose source is switched off."""
        off = self.switched_off
        return tuple(mode for mode in self.plan.modes if mode not in off and WORKLOADS[mode].source not in off)

    def knows_ids(self) -> bool:
        """Return whether the canary has noted the id of each topic: only then it can see that one is made again."""
        named = {topic_id for topic, topic_id, _ in self.cluster.epochs() if topic in self.topics()}
        return self.cluster.ids and named <= self.truth.topic_ids

    def any_broker(self) -> int:
        """Return a broker that answers; the first one if none does."""
        brokers = list(self.cluster.brokers())
        return next((one for one in brokers if self.cluster.reaches("elsewhere", one)), brokers[0])

    def grow(self, topic: str) -> None:
        """Add a partition."""
        self.cluster.create_partitions(self.any_broker(), topic, [list(self.cluster.brokers())])

    @property
    def look_beats(self) -> int:
        """Within so many intervals a loss is to be found: twice as many where a transaction hangs.

        There the scrubber reads what lies below it and what lies above it in turns. However much it may read, it turns
        to one log in an interval at most, as it wakes up once in it: where there are many, it comes back later.
        """
        beats = max(LOOK_BEATS, self.plan.logs + FOUND_BEATS)
        return beats * (1 + bool(self.cluster.hung(LOOK_BEATS * self.plan.beat)))

    def silent_for(self) -> float:
        """Return for how many seconds no process of the canary has been able to do anything."""
        if self.process.dead or self.process.frozen:
            return self.schedule.now - self._silent_since
        return 0.0

    def blocked_for(self) -> float:
        """Return for how many seconds the canary has not been able to make a fact durable."""
        judge = None if self.runner is None or self.process.dead else self.runner._judge
        if judge is None or self.process.frozen or self.truth.durable_at is None:
            return 0.0
        return self.schedule.now - max(self.truth.durable_at, self._began)

    def later(self, delay: float, act: Callable[[], object]) -> None:
        """Let a harm do something in ``delay`` seconds, and note whether all is well then."""

        def acts() -> None:
            act()
            self.note_health()

        self.schedule.after(delay, acts)

    def freeze(self, process: Process) -> None:
        """Stop a process of the canary like SIGSTOP does."""
        self._silent_since = self.schedule.now
        self.schedule.freeze(process)

    def kill_canary(self, after: float, power: random.Random | None = None) -> None:
        """End the canary's process where it stands; with ``power`` its machine loses what was never synced."""
        process = self.process
        if not process.dead:
            self._silent_since = self.schedule.now
        self.schedule.kill(process)
        self.disk.release(process)
        if power is not None:
            self.disk.power_cut(power)
        self._start_later(after)

    def stop_canary(self, after: float) -> None:
        """End the canary's process as SIGTERM does."""
        if self.runner is not None:
            self.runner.ask_stop()
            self._pause_s = after

    # the canary

    _pause_s: float | None = None

    def _start_later(self, after: float) -> None:
        if not self._pending_start and not self.over:
            self._pending_start = True
            self.schedule.after(after, self._start)

    def _start(self) -> None:
        if self.over or not self._pending_start:
            return
        self._pending_start = False
        self.starts += 1
        self._began = self.schedule.now
        self.process = process = Process(f"canary-{self.starts}")
        process.clock_ns = self.clock_ns
        self.schedule.spawn(process, lambda: self._canary(process), "main")

    def _canary(self, process: Process) -> None:
        settings = replace(self.plan, modes=self.modes_on()).settings() if self.switched_off else self.settings
        runner = self.runner = ClusterRunner(settings, settings.clusters[0], self.store.store, disk=self.disk)
        try:
            runner.run()
        except Exception as error:
            self.note(f"the canary failed: {error!r}")
            self.outcome.wrong.append(Wrong("CRASH", repr(error)))
            raise
        finally:
            if not process.dead:
                runner.end()
        if runner.status is not None:
            self.note(f"the canary ended with status {runner.status}: {runner.message}")
        process.dead = True
        self._silent_since = self.schedule.now
        self.disk.release(process)
        pause, self._pause_s = self._pause_s or AGAIN_S, None
        self._start_later(pause)

    def note(self, words: str) -> None:
        """Add a line to the story."""
        self.outcome.story.append((self.schedule.now, words))

    # a life

    def live(self) -> Outcome:
        """Live the plan, settle, and judge."""
        with self._installed():
            self.cluster.on_append.append(self.truth.appended)
            self.cluster.on_lost.append(self._lost)
            self.cluster.on_start.append(self.truth.started)
            self.cluster.on_return.append(self.truth.returned)
            if "mirror" in self.plan.modes:
                self.cluster.create_topic(1, ORDERS, [list(self.cluster.brokers())], {"min.insync.replicas": "2"})
            self.chronicle.listen(self.cluster)
            self.schedule.at(0.0, self._look)
            self._start_later(0.0)
            self.costs.begin()
            watch = Watch(self) if 0 < self.plan.grain <= 5 else None
            if watch is not None:
                watch.begin()
            for number, strike in enumerate(self.plan.strikes):
                self.schedule.at(strike.at, lambda n=number, s=strike: self._strike(n, s))  # type: ignore[misc]
            end = self.plan.hours * 3600
            self.schedule.run(end)
            self.settling = True
            for number in sorted(self._ends):
                self._end(number)
            self._heal()
            if self.plan.strikes and self.settle_beats >= PROOF_BEATS + LOOK_BEATS:
                self.settle_beats = max(self.settle_beats, PROOF_BEATS + 2 * self.look_beats)
                self.schedule.at(end + PROOF_BEATS * self.plan.beat, self._lose_once_more)
            self.schedule.run(end + self.settle_beats * self.plan.beat)
            if self.schedule.halted:  # no other verdict: what comes after the harms never came
                self.outcome.wrong += [Wrong("COSTLY", what) for what in (*self.truth.costly[:1], *self.costs.turns())]
                self.over = True
            else:
                self._judge()
                if watch is not None:
                    self.outcome.wrong += [Wrong("SAID SAFE", words) for words in watch.wrong]
                self.over = True
                self._compare()
            self.schedule.halted, self.schedule.most_steps = False, math.inf
            self.schedule.kill(self.process)
            self.schedule.run(self.schedule.now)
        self.outcome.seconds = self.schedule.now
        self.outcome.steps = self.schedule.steps
        return self.outcome

    def _strike(self, number: int, strike: Strike) -> None:
        self.outcome.pairs.update((strike.harm, state) for state in states(self))
        self.note(f"{strike.harm} for {strike.lasts:.1f} s")
        end = HARMS[strike.harm].begin(self, random.Random(strike.seed))
        self.note_health()
        if end is not None:
            self._ends[number] = (strike, end)
            self.schedule.after(strike.lasts, lambda: self._end(number))

    def _end(self, number: int) -> None:
        found = self._ends.pop(number, None)
        if found is not None:
            strike, end = found
            self.note(f"{strike.harm} is over")
            end()
            self.note_health()

    def _heal(self) -> None:
        """End every harm that is left."""
        self.disk.heal()
        self.store.heal()
        for broker in self.cluster.brokers():
            self.cluster.slow(broker, 0.0)
            self.cluster.lag(broker, 0.0)
            self.cluster.resume(broker)
            self.cluster.start(broker)
        self.cluster.bugs.clear()
        self.cluster.refuses = self.cluster.transactions.forgets = False
        self.cluster.answers_as = None
        self.cluster.heal()
        if self.process.frozen:
            self.schedule.resume(self.process)
        self._pause_s = None
        if self.process.dead:
            self._pending_start = False  # it starts sooner than it was to
            self._start_later(1.0)

    def _lose_once_more(self) -> None:
        """Lose the first record of each log, and a few or half of the others: a canary that went blind misses some."""
        self.costs.look()
        dice = random.Random(self.plan.seed)
        share = dice.choice(PROOF_SHARES)
        for topic in dict.fromkeys(self.topics()):
            for partition in range(self.plan.partitions):
                self.cluster.riddle(topic, partition, share, dice)

    def _look(self) -> None:
        """Look once in an interval whether all is well."""
        self.note_health()
        if not self.over:
            self.schedule.after(self.plan.beat, self._look)

    def note_health(self) -> None:
        """Note whether all is well: in each interval, and after each thing a harm does, which the next may not show."""
        self.chronicle.looks.append((self.schedule.now, self._is_well()))
        self.hung_at |= dict.fromkeys(self.cluster.hung(HUNG_BEATS * self.plan.beat), self.schedule.now)

    def _is_well(self) -> bool:
        ready = self.runner is not None and self.runner.probing.is_set()
        canary = ready and not self.process.dead and not self.process.frozen and not self._pending_start
        return canary and self.cluster.is_well() and self.disk.is_well() and self.store.is_well()

    def _lost(self, topic: str, topic_id: str, partition: int, records: Sequence[Any], how: str) -> None:
        if how not in EXPIRED and records:
            self.note(f"{how}: {len(records)} records of {topic}[{partition}] from {records[0].offset} on are gone")
        self.truth.lost(topic, topic_id, partition, records, how)

    @contextlib.contextmanager
    def _installed(self) -> Iterator[None]:
        """Put this world in the place of the operating system and of Kafka, and listen to the ledger and the store."""
        truth = self.truth
        append, record, ship = Ledger.append, Violations.record, shipping.ship
        schedule = self.schedule

        def listening(ledger: Ledger, facts: Sequence[Any]) -> None:
            append(ledger, facts)
            known = list(each(facts))
            truth.durable(known)
            self.facts += known

        def telling(repository: Violations, cluster: str, found: Sequence[Any]) -> int:
            done = record(repository, cluster, found)
            truth.told(found)
            return done

        def sending(converted: Converted, *, url: str, name: str) -> None:
            ship(converted, url=url, name=name)
            truth.was_shipped(converted.tables["probes"].to_pylist())

        class Clients(opening.Clients):
            """Each process has its own."""

            def __init__(self) -> None:
                self._made: dict[Process, SimulatedKafka] = {}

            def _of(self) -> SimulatedKafka:
                assert schedule.current is not None
                process = schedule.current.process
                if process not in self._made:
                    self._made[process] = SimulatedKafka(schedule, world.cluster, process)
                return self._made[process]

            def producer(self, config: dict[str, Any], logger: logging.Logger) -> Any:
                return self._of().producer(config, logger)

            def consumer(self, config: dict[str, Any], logger: logging.Logger) -> Any:
                return self._of().consumer(config, logger)

            def admin(self, config: dict[str, Any], logger: logging.Logger) -> Any:
                return self._of().admin(config, logger)

        world = self
        fsspec.filesystem("memory").store.clear()
        before_system, before_clients = system.use(self.system), opening.use(Clients())  # type: ignore[arg-type]
        Ledger.append, Violations.record = listening, telling  # type: ignore[method-assign,assignment]
        shipping.ship = sending
        configured = structlog.get_config()
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(self.log_level))
        try:
            yield
        finally:
            Ledger.append, Violations.record = append, record  # type: ignore[method-assign]
            shipping.ship = ship
            system.use(before_system)
            opening.use(before_clients)
            structlog.configure(**configured)
            self.store.close()

    # the verdict

    def _judge(self) -> None:
        truth, wrong = self.truth, self.outcome.wrong
        self.outcome.promises = len(truth.promised)
        broken = truth.broken()
        self.outcome.broken = len(broken)
        for name, fate in broken.items():
            if not truth.is_said(name, "lost-write") and not self._excused(name, fate):
                when, why = fate.gone or (fate.at, "its transaction is not committed any more")
                wrong.append(Wrong("MISSED", f"offset {fate.offset}: {why} at {when:.1f} s"))
        for name, violation in truth.false_losses:
            there = truth.fates.get(name)
            wrong.append(
                Wrong(
                    "FALSE",
                    f"{violation.kind} {violation.topic}[{violation.partition}] {violation.offset}: "
                    f"{violation.summary} ({there})",
                )
            )
        wrong += self._unjustified()
        wrong += self._unfiled()
        wrong += self._repeated()
        wrong += self._late()
        wrong += [Wrong("TWICE", f"two processes sent {what}") for what in truth.twice[:1]]
        wrong += [Wrong("COSTLY", what) for what in (*truth.costly[:1], *self.costs.too_much())]
        judge = None if self.runner is None else self.runner._judge
        if self.process.dead or judge is None or self.runner is None or not self.runner.probing.is_set():
            wrong.append(Wrong("STUCK", "it does not probe again, though all is well"))
        hung = self.cluster.hung(self.settle_beats * self.plan.beat / 2)
        open_ = [
            row
            for row in self.store.store.violations.unended("c", ENDING)
            if not (row.kind == "stalled" and (row.topic, row.partition) in hung)
        ]
        wrong += [Wrong("STUCK", f"{row.kind} is still open: {row.summary}") for row in open_]
        for task in self.process.tasks:
            if task.failure is not None:
                wrong.append(Wrong("CRASH", f"{task.name}: {task.failure!r}"))

    def _compare(self) -> None:
        """Stop the canary, and hold against one another what online, the checker and the night say."""
        wrong = self.outcome.wrong
        if any(one.what in {"STUCK", "CRASH"} for one in wrong):
            return  # what it did not do any more it could not ship
        if stopped(self):
            wrong += [Wrong("DISAGREE", what) for what in disagreements(self)]
        else:
            wrong.append(Wrong("STUCK", "it does not end when it is asked to"))

    def _quiet(self, began: float, end: float) -> float:
        """Return how many seconds lie between, without those in which a harm was at work, or had just been."""
        after = HARMED_BEATS * self.plan.beat
        harmed = sum(max(min(end, one.at + one.lasts + after) - max(began, one.at), 0.0) for one in self.plan.strikes)
        return end - began - harmed

    def _unjustified(self) -> Iterator[Wrong]:
        """Yield each violation of which the world has no such fact; each once."""
        seen: set[str] = set()
        for told, one in self.truth.violations:
            if one.key("c") not in seen:
                seen.add(one.key("c"))
                why = false(self, one, told)
                if why:
                    said = f"{one.severity} {one.kind} {one.topic}[{one.partition}] {one.offset} at {told:.1f} s"
                    yield Wrong("FALSE", f"{said}: {why}: {one.summary}")

    def _unfiled(self) -> Iterator[Wrong]:
        """Yield a violation that the store has not, though it was told, and the canary does not say that it forgot."""
        told = {one.key("c"): one for _, one in self.truth.violations}
        if any(one.kind == "memory-lost" for one in told.values()):
            return
        rows = list(self._filed())
        ids = {row.id for row in rows}
        ranges = defaultdict(list)  # a part of what is filed already is not filed again
        for row in rows:
            if row.offset is not None and row.last_offset is not None:
                ranges[row.kind, row.topic, row.partition].append((row.offset, row.last_offset))
        for key, one in told.items():
            known = ranges[one.kind, one.topic, one.partition]
            if key not in ids and not any(start <= (one.offset or 0) <= end for start, end in known):
                yield Wrong("UNFILED", f"{one.kind} is not in the store any more: {one.summary}")

    def _filed(self) -> Iterator[StoredViolation]:
        """Yield all that the store has; a broken cluster may lose a thousand times, and a page has no more."""
        cursor: str | None = None
        while True:
            page = self.store.store.violations.page(cursor=cursor, limit=MAX_LIMIT)
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return

    def _repeated(self) -> Iterator[Wrong]:
        """Yield a loss that several violations name, unless the canary forgot that it had said it."""
        for name, said in self.truth.said.items():
            told = {one.key("c"): one for one in said if one.kind == WRITES_LOST}
            if len(told) > 1 and not self.truth.memory_lost:
                first, *_, last = told.values()
                about = f"offset {self.truth.fates[name].offset} of {first.topic}[{first.partition}]"
                yield Wrong("AGAIN", f"{about} is said to be lost twice: {first.sentence}; {last.sentence}")
                return

    def _late(self) -> Iterator[Wrong]:
        """Yield a loss that was said only after all had been well for long enough to find it."""
        first, patience = self.truth.first_told(), self.look_beats * self.plan.beat
        for name, fate in self.truth.broken().items():
            if name not in first or self._excused(name, fate):
                continue
            when, how = fate.gone or (fate.at, "")
            gone_at = max(when, self.truth.promised[name])
            if how == "commit undone":  # see `_excused`
                gone_at = max(gone_at, self.hung_at.get((fate.topic, fate.partition), 0.0))
            quiet = self.chronicle.longest_quiet(gone_at, first[name])
            if quiet > patience:
                about = f"offset {fate.offset} of {fate.topic}[{fate.partition}] was gone at {gone_at:.1f} s"
                yield Wrong("LATE", f"{about}, and said at {first[name]:.1f} s: all was well for {quiet:.0f} s between")
                return

    def _excused(self, name: bytes, fate: Any) -> bool:
        """Whether the canary cannot know of a broken promise: it may have expired, or what was known of it is gone."""
        if fate.topic not in self._topics_of(self.modes_on()):
            return True  # nobody asks for that topic
        gone_at, how = fate.gone or (fate.at, "")
        if how == "commit undone" and (fate.topic, fate.partition) in self.cluster.hung(0.0):
            return True  # only read_committed lacks it, and that is given nothing above a transaction that hangs
        expired_at = self.truth.expired_at(fate)
        if expired_at is not None and self._quiet(gone_at, expired_at) < self.look_beats * self.plan.beat:
            return True  # nothing is looked for below the log's start
        if self.truth.may_have_expired(name, fate, gone_at, self.plan.retention_s):
            return True
        if any(at >= min(gone_at, self.truth.promised[name]) for at in self.truth.memory_lost):
            return True
        kinds = {
            one.kind
            for _, one in self.truth.violations
            if one.topic_id == fate.topic_id or one.kind == "topic-recreated"
        }
        return "topic-recreated" in kinds or "topic-deleted" in kinds


ENDING = frozenset({"blind", "stalled", "offline-partition", "isr-of-one", "under-min-isr", "cluster-offline"})
"""Conditions that must have ended once all is well."""


def live(plan: Plan) -> Outcome:
    """Live one life."""
    return World(plan).live()

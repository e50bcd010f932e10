"""What online, `canary check` and the night say of one life, held against one another and against the truth.

The canary is stopped at the end of the life, so that its last segment is shipped. Then there are three witnesses: the
tracker, which has told its store; the checker, on the probe log exported as a history; and the night's kernel, on the
probe log and on a dump of the logs as they stand. What must hold, and what excuses the contrary:

* **Shipped**: a promise that the ledger made durable is a row of the probe log, acknowledged; and what was there once
  stays there. Excused: it was made before the canary's memory was lost (its segment may be gone), or before a segment
  rotted, or in that segment; the row says that the incarnation of the topic is not known (the converter voids such a
  promise, and only where a topic was made anew or was gone). What a disk lost that nobody can know of is no promise
  (`Truth.unkept`).
* **Broken, so lost at night**: of a broken promise the night says lost-write. Excused: it has expired, its topic is
  another one now or has no leader, a damaged record stands there, or it is pending: acknowledged less than five minutes
  before the dump and beyond the log's end, or in a transaction and above the last stable offset (RECONCILIATION rules 3
  and 4).
* **Lost at night, so gone**: what the night calls lost has no copy in the cluster, and not by its age. Excused: it had
  expired before the log began again below it (all its disks were wiped, say); the night knows one start of the log
  only, and nobody can tell there what had expired from what was destroyed.
* **Lost at night, so said**: the running canary has said it, too, unless it could not know of it (`losses.excused`), or
  its process died before the beginning of the producer was durable: then the tracker takes it for another runner's.
* **Duplicates**: the night names exactly those of which the cluster has two copies, but for what it does not judge.
  Online each is said once both have stood for as long as a loss may take to be found, and so is the copy of what has
  been read and has expired: no other witness knows of the first one any more.
* **Aborted reads**: of what a consumer was polled, G1a names what a broker showed though it was aborted, and what is an
  aborted read at night, and nothing else; of what a fenced producer sent, zombie-write does. Excused: a memory that
  was lost or rotted (outcome or reading may be gone with it), another incarnation.
* **`canary check`** on the exported history says what online says (simulation.verdicts.exported).
* **Phantoms**: the night finds none, unless memory was lost or rotted: every identity was noted before it was sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary.facts import Polled
from canary.probe.identity import Identity
from canary.probe.record import key
from simulation.histories.agreement import uncommitted
from simulation.machine.system import EPOCH_NS
from simulation.verdicts.exported import contradictions
from simulation.verdicts.losses import excused
from simulation.verdicts.shipped import shipped
from simulation.world.truth import EXPIRED
from spark_reconcile.match.rules import TAIL_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simulation.verdicts.shipped import Shipped
    from simulation.world.truth import Fate
    from simulation.world.world import World

UNJUDGED = frozenset({"expired", "early-expiry", "unexplained-expiry", "other-incarnation", "unjudged", "corrupt"})
"""Verdicts under which the night says nothing else of a write."""
SEGMENT_BEATS = 32
"""A segment is sealed when it is 30 intervals old; what is appended behind a damaged place cannot be read either."""
STOP_S = 120.0
"""Within so long, and so many intervals, the canary ends when it is asked to."""
STOP_BEATS = 20


def stopped(world: World) -> bool:
    """Stop the canary as SIGTERM does; return whether it ended."""
    process, schedule = world.process, world.schedule
    if world.runner is not None:
        world.runner.ask_stop()
    until = schedule.now + STOP_S + STOP_BEATS * world.plan.beat
    while not process.dead and not schedule.halted and schedule.now < until:
        schedule.run(schedule.now + world.plan.beat)
    return process.dead


def disagreements(world: World) -> Iterator[str]:
    """Yield what the witnesses of a life do not agree about, the first case of each kind."""
    found = shipped(world)
    for kind, some in _Compared(world, found).all().items():
        first = next(some, None)
        if first is not None:
            yield f"{kind}: {first}"


class _Compared:
    """The witnesses of one life."""

    def __init__(self, world: World, found: Shipped) -> None:
        self.world = world
        self.truth = world.truth
        self.found = found
        self.rows = {key(_identity(row)): row for row in found.rows.probes}
        self.verdicts = {_name(who): verdict for who, (verdict, _) in found.night["verdicts"].items()}
        unjudged = set(found.night["unjudged"])
        for row in found.rows.probes:
            if (row["cluster"], row["topic"], row["partition"]) in unjudged:
                self.verdicts.setdefault(key(_identity(row)), "unjudged")
        self.lost = {_name(who) for who in found.night["lost"]}
        self.copied = {_name(who) for who in found.night["copied"]} - self.rows.keys()
        """Of whom only the dump tells: their verdict is of where they stand, not of how often."""
        self.polled: dict[bytes, float] = {}
        """When a read_committed consumer was first given a probe, by the canary's clock in virtual s."""
        self.unbegun: set[bytes] = set()
        """Polled, never sent, of a producer of which the ledger has no beginning."""
        for row in found.rows.polls:
            if row["producer_id"] not in self.truth.producers:
                self.unbegun |= {key(_identity(row))} - self.rows.keys()
            if row["isolation"] == "read_committed":
                name, at = key(_identity(row)), _us(row["polled_at"]) / 1e6 - EPOCH_NS / 1e9
                self.polled[name] = min(at, self.polled.get(name, at))
        rotten = [one.at + SEGMENT_BEATS * world.plan.beat for one in world.plan.strikes if one.harm == "rot-ledger"]
        self.unshipped_at = max([*self.truth.memory_lost, *rotten], default=-1.0)
        self.forgot_at = max([self.unshipped_at, *self.truth.unkept_at])

    def all(self) -> Mapping[str, Iterator[str]]:
        """Return what each comparison finds."""
        return {
            "promised and not shipped": self.shipped(),
            "broken and not lost at night": self.broken(),
            "lost at night and not gone": self.gone(),
            "lost at night and not said": self.said(),
            "copies and duplicates differ": self.duplicates(),
            "two copies stand and are not said": self.doubled(),
            "a copy of what expired is not said": self.copied_late(),
            "aborted reads differ": self.aborted(),
            "an aborted read that is not said": self.given(),
            "phantom at night": self.phantoms(),
            "canary check and online differ": self.exported(),
        }

    def shipped(self) -> Iterator[str]:
        """Promises that the probe log lacks, and what it lacks again."""
        for name in self.truth.shipped:
            if name not in self.rows or self.rows[name]["outcome"] != "acked":
                yield f"{self.truth.fates.get(name)} was there, and is {self.rows.get(name)}"
        for name, at in self.truth.promised.items():
            row = self.rows.get(name)
            if at <= self.unshipped_at or (row is not None and row["outcome"] == "acked"):
                continue
            if (
                row is None
                or not (row["error"] or "").startswith("acked at offset")
                or not self._made_anew(row["topic"])
            ):
                yield f"{self.truth.fates.get(name)} promised at {at:.1f} s is {row}"

    def _made_anew(self, topic: str) -> bool:
        """Whether there was a time at which the topic was gone, or another one than before."""
        ids = {fate.topic_id for fate in self.truth.fates.values() if fate.topic == topic}
        kinds = {one.kind for _, one in self.truth.violations if one.topic == topic}
        return len(ids) > 1 or bool(kinds & {"topic-recreated", "promises-void"})

    def broken(self) -> Iterator[str]:
        """Broken promises that the night does not find."""
        for name, fate in self.truth.broken().items():
            row = self.rows.get(name)
            if name in self.lost or row is None or row["outcome"] != "acked":
                continue
            verdict = self.verdicts.get(name, "survived")
            if verdict not in UNJUDGED and not (verdict == "pending" and self._pends(fate, row)):
                yield f"{fate} is {verdict} at night"

    def _pends(self, fate: Fate, row: Mapping[str, Any]) -> bool:
        """Whether the night may wait with its verdict."""
        acked = row["acked_at"]
        fresh = acked is None or _us(acked) >= self.found.dumped_us - TAIL_US
        return fresh or row["offset"] is None or row["transaction_id"] is not None or fate.offset < 0

    def gone(self) -> Iterator[str]:
        """What the night calls lost, and is there, or is gone by its age alone."""
        for name in self.lost:
            fate = self.truth.fates.get(name)
            if fate is None or fate.copies > 0 or not (fate.was_lost or self.truth.expired_at(fate) is not None):
                yield f"{fate}, {self.rows.get(name)}"

    def said(self) -> Iterator[str]:
        """What the night calls lost, and the canary did not."""
        for name in self.lost:
            fate = self.truth.fates.get(name)
            if fate is None or self.truth.is_said(name, "lost-write") or name in self.unbegun:
                continue
            self.truth.promised.setdefault(name, fate.at)
            if not excused(self.world, name, fate):
                yield f"{fate}, {self.rows.get(name)}"

    def duplicates(self) -> Iterator[str]:
        """Who has two copies, and is no duplicate; and the other way round."""
        judged = {name for name, verdict in self.verdicts.items() if verdict not in UNJUDGED}
        for name, fate in self.truth.fates.items():
            twice = fate.copies > 1
            verdict = self.verdicts.get(name, "survived" if name in self.rows else None)
            copied = verdict == "duplicate" or name in self.copied
            if twice != copied and (not twice or name in judged):
                yield f"{fate} is {verdict} at night"

    def doubled(self) -> Iterator[str]:
        """Who has two copies that stood for as long as a loss may take to be found, and is not called a duplicate."""
        patience = self.world.look_beats * self.world.plan.beat
        for name, fate in self.truth.fates.items():
            if fate.copies > 1 and not self.truth.is_said(name, "duplicate") and not excused(self.world, name, fate):
                copies = self.world.chronicle.of(fate.topic_id, fate.partition, name)
                since = max(one.since for one in copies if one.until is None)
                if self.world.chronicle.longest_quiet(since, self.world.schedule.now) > patience:
                    yield f"{fate}: {[one.offset for one in copies if one.until is None]}"

    def copied_late(self) -> Iterator[str]:
        """Who was read, expired, has stood elsewhere since for as long, and is not called a duplicate."""
        if self.forgot_at >= 0 or not any(bug == "copied-late" for _, bug, *_ in self.world.cluster.struck):
            return
        read = {(_of_fact(one), one.offset) for one in self.world.facts if isinstance(one, Polled)}
        patience = self.world.look_beats * self.world.plan.beat
        for name, fate in self.truth.fates.items():
            copies = self.world.chronicle.of(fate.topic_id, fate.partition, name)
            first = [one for one in copies if one.how in EXPIRED and (name, one.offset) in read]
            since = max((one.since for one in copies if one.until is None), default=None)
            if since is None or not first or self.truth.is_said(name, "duplicate") or excused(self.world, name, fate):
                continue
            quiet = self.world.chronicle.longest_quiet(since, self.world.schedule.now)
            if quiet > patience and fate.offset not in {one.offset for one in first}:
                yield f"{fate} stood at {[one.offset for one in first]}"

    def given(self) -> Iterator[str]:
        """Records of aborted transactions that a read_committed consumer was given, which is not said."""
        if self.forgot_at < 0:
            for _, _, record in self.world.cluster.shown:
                if record.key in self.polled and not self._is_said_uncommitted(record.key):
                    yield f"{self.truth.fates.get(record.key)}"

    def aborted(self) -> Iterator[str]:
        """Aborted reads that only one of the two knows."""
        night = {name for name, verdict in self.verdicts.items() if verdict == "aborted-read"}
        if self.forgot_at >= 0:
            return
        for name in night & set(self.polled):
            if not self._is_said_uncommitted(name) and not self._expired_first(name):
                yield f"{self.truth.fates.get(name)} is one at night"
        for name in self.truth.said:
            if self._is_said_uncommitted(name) and self.verdicts.get(name) not in {"aborted-read", *UNJUDGED}:
                yield f"{self.truth.fates.get(name)} is one online, and {self.verdicts.get(name)} at night"

    def _is_said_uncommitted(self, name: bytes) -> bool:
        return any(uncommitted(one) for one in self.truth.said.get(name, ()))

    def exported(self) -> Iterator[str]:
        """What the checker says of the exported history, and the canary does not; and the other way round."""
        if self.forgot_at < 0:
            left_out = [topic for topic in self.world.topics() if self._made_anew(topic)]
            yield from contradictions(self.world, self.found.rows, left_out, self._expired_first)

    def _expired_first(self, name: bytes) -> bool:
        """Whether the log's start had passed a probe before it was read: a leader that deleted less still held it."""
        fate = self.truth.fates.get(name)
        expired_at = None if fate is None else self.truth.expired_at(fate)
        stepped = any("clock" in one.harm for one in self.world.plan.strikes)
        return expired_at is not None and (stepped or expired_at <= self.polled[name])

    def phantoms(self) -> Iterator[str]:
        """Records that nobody is known to have sent."""
        if self.forgot_at < 0:
            for name, verdict in self.verdicts.items():
                if verdict == "unexpected":
                    yield f"{self.truth.fates.get(name)}"


def _identity(row: Mapping[str, Any]) -> Identity:
    return Identity(row["producer_id"], row["generation"], row["partition"], row["sequence"])


def _of_fact(fact: Polled) -> bytes:
    return key(Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence))


def _name(who: tuple[Any, ...]) -> bytes:
    """Return the key of a probe; ``who`` is (cluster, topic, partition, producer, generation, sequence)."""
    return key(Identity(who[3], who[4], who[2], who[5]))


def _us(when: Any) -> int:
    return int(when.timestamp() * 1e6)

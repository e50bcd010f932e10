"""What can go wrong, one entry each: a function that begins it and returns what ends it (None: it has no end).

A harm gets the world and dice of its own, so that leaving out another harm changes nothing of it. What it does after it
has struck goes through ``World.later``, so that it is noted whether all is well then.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from canary.runner.publishing.snapshot import unseal
from canary.workloads.catalogue import WORKLOADS
from simulation.machine.disk import Fault, LyingDisk
from storage.ledger.recovery import find_chain, recovery_of

if TYPE_CHECKING:
    from simulation.cluster.coordinators import Transaction
    from simulation.world.world import World

LEDGER = Path("/world/ledger")

End = Callable[[], object]
Begin = Callable[["World", random.Random], End | None]


@dataclass(frozen=True, slots=True)
class Harm:
    """``weight``: how often it is struck, beside others. ``breaks``: the cluster then does what no sound one does."""

    name: str
    begin: Begin
    weight: float = 1.0
    breaks: bool = False


HARMS: dict[str, Harm] = {}


def harm(weight: float = 1.0, *, breaks: bool = False) -> Callable[[Begin], Begin]:
    """Enter a function in the table, under its own name."""

    def enter(begin: Begin) -> Begin:
        name = begin.__name__.replace("_", "-")
        HARMS[name] = Harm(name, begin, weight, breaks)
        return begin

    return enter


def _place(world: World, dice: random.Random) -> tuple[str, int]:
    return dice.choice(world.topics()), dice.randrange(world.plan.partitions)


def _leader(world: World, dice: random.Random) -> int:
    topic, partition = _place(world, dice)
    leader = world.cluster.leader(topic, partition)
    return leader if leader > 0 else dice.choice(world.cluster.brokers())


def _broker(world: World, dice: random.Random) -> int:
    return _leader(world, dice) if dice.random() < 0.5 else dice.choice(world.cluster.brokers())


def _start(world: World, brokers: Sequence[int]) -> None:
    for broker in brokers:
        world.cluster.start(broker)


def _cut(world: World, *pairs: tuple[int | str, int | str]) -> End:
    """Cut connections, each between two sites; the end heals them."""
    for a, b in pairs:
        world.cluster.cut(a, b)

    def back() -> None:
        for a, b in pairs:
            world.cluster.heal(a, b)

    return back


def _change_store(world: World, dice: random.Random, change: Callable[[], object]) -> None:
    """Change the store while the canary is down."""
    world.kill_canary(after=1 + 10 * dice.random())
    world.cluster.answers_as = None  # a store that knows no cluster takes the first one for its own
    change()


# brokers


@harm(3)
def kill(world: World, dice: random.Random) -> End:
    broker = _broker(world, dice)
    world.cluster.kill(broker)
    return lambda: world.cluster.start(broker)


@harm(3)
def power_off(world: World, dice: random.Random) -> End:
    broker = _broker(world, dice)
    world.cluster.power_off(broker)
    return lambda: world.cluster.start(broker)


@harm()
def power_all(world: World, dice: random.Random) -> End:
    brokers = list(world.cluster.brokers())
    dice.shuffle(brokers)
    world.cluster.power_off(*brokers)
    return lambda: _start(world, brokers)


@harm(2)
def isr_of_one_then_power(world: World, dice: random.Random) -> End | None:
    """The followers are away long enough to leave the ISR, and then the last one in it loses power."""
    topic, partition = _place(world, dice)
    leader = world.cluster.leader(topic, partition)
    if leader < 1:
        return None
    heal = _cut(world, *((one, leader) for one in world.cluster.brokers() if one != leader))

    def then() -> None:
        world.cluster.power_off(leader)
        heal()

    world.later(15 + 60 * dice.random(), then)
    return lambda: world.later(120, lambda: world.cluster.start(leader))


@harm(2)
def freeze(world: World, dice: random.Random) -> End:
    broker = _broker(world, dice)
    world.cluster.freeze(broker)
    return lambda: world.cluster.resume(broker)


@harm()
def wipe(world: World, dice: random.Random) -> End:
    broker = _broker(world, dice)
    world.cluster.kill(broker)
    world.cluster.wipe(broker)
    return lambda: world.cluster.start(broker)


@harm(0.6)
def wipe_all_brokers(world: World, dice: random.Random) -> End:  # a harm's shape
    for broker in world.cluster.brokers():
        world.cluster.kill(broker)
        world.cluster.wipe(broker)
    return lambda: _start(world, world.cluster.brokers())


@harm()
def rolling_restart(world: World, dice: random.Random) -> End:
    pause = 5 + 25 * dice.random()
    for turn, broker in enumerate(world.cluster.brokers()):
        world.later(2 * turn * pause, lambda one=broker: world.cluster.kill(one))  # type: ignore[misc]
        world.later((2 * turn + 1) * pause, lambda one=broker: world.cluster.start(one))  # type: ignore[misc]
    return lambda: None


@harm()
def lag(world: World, dice: random.Random) -> End:
    broker = _broker(world, dice)
    world.cluster.lag(broker, 30 * dice.random())
    return lambda: world.cluster.lag(broker, 0.0)


@harm()
def slow(world: World, dice: random.Random) -> End:
    broker = _broker(world, dice)
    world.cluster.slow(broker, 8 * dice.random())
    return lambda: world.cluster.slow(broker, 0.0)


# network


@harm(2)
def cut_brokers(world: World, dice: random.Random) -> End:
    a, b = dice.sample(list(world.cluster.brokers()), 2)
    return _cut(world, (a, b))


@harm(2)
def cut_controller(world: World, dice: random.Random) -> End:
    return _cut(world, (_broker(world, dice), "controller"))


@harm(2)
def isolate_leader(world: World, dice: random.Random) -> End:
    """A leader sees nobody but its clients: it goes on believing that it leads."""
    broker = _leader(world, dice)
    others: list[int | str] = [one for one in world.cluster.brokers() if one != broker] + ["controller"]
    return _cut(world, *((broker, one) for one in others))


@harm(2)
def cut_canary(world: World, dice: random.Random) -> End:
    return _cut(world, ("canary", _broker(world, dice)))


@harm()
def cut_canary_off(world: World, dice: random.Random) -> End:
    return _cut(world, *(("canary", broker) for broker in world.cluster.brokers()))


# topics


@harm(2)
def elect(world: World, dice: random.Random) -> None:
    topic, partition = _place(world, dice)
    world.cluster.elect(topic, partition, dice.choice(world.cluster.brokers()))


@harm(0.5)
def delete_topic(world: World, dice: random.Random) -> None:
    topic = dice.choice(world.topics())
    if world.knows_ids():
        world.cluster.delete_topic(world.any_broker(), topic)


@harm(0.5)
def recreate_topic(world: World, dice: random.Random) -> None:
    topic = dice.choice(world.topics())
    if world.knows_ids():
        world.cluster.recreate_topic(topic)


@harm(0.5)
def grow_topic(world: World, dice: random.Random) -> None:
    world.grow(dice.choice(world.topics()))


@harm(0.7)
def delete_records(world: World, dice: random.Random) -> None:
    topic, partition = _place(world, dice)
    log = world.cluster.log(topic, partition)
    if log:
        world.cluster.delete_records(topic, partition, dice.choice(log).offset)


@harm(0.7, breaks=True)
def hollow_records(world: World, dice: random.Random) -> None:
    """Records in the middle of logs are not shown any more, to nobody: a broken index, a tier that lost an object."""
    for topic in world.topics():
        for partition in range(world.plan.partitions):
            at, length = dice.random(), 1 + dice.randrange(20)
            if dice.random() < 0.5:
                world.cluster.hollow(topic, partition, at, length)


@harm()
def hang_transaction(world: World, dice: random.Random) -> None:
    """A coordinator's state is lost when a transaction is to be ended: nobody will ever end it."""
    world.cluster.transactions.forgets = True


# what an operator does to the whole cluster, or to the settings


@harm()
def other_cluster(world: World, dice: random.Random) -> End | None:
    """Another cluster's id answers behind the address."""
    if world.process.dead or world.runner is None or not world.runner.probing.is_set():
        return None  # the first cluster that answers is the known one
    world.cluster.answers_as = "another-cluster-000001"
    if dice.random() < 0.3:
        world.kill_canary(after=10 * dice.random())
    return lambda: setattr(world.cluster, "answers_as", None)


@harm()
def epochs_restored(world: World, dice: random.Random) -> End:
    """The metadata are put back from a backup, so that leader epochs go back; the canary is started again then.

    A client that knows of the higher epoch waits for it: only a new one goes on.
    """
    backup = world.cluster.epochs()
    for topic, _, partition in backup:
        if topic in world.topics():
            for broker in dice.sample(list(world.cluster.brokers()), 3):
                world.cluster.elect(topic, partition, broker)

    def back() -> None:
        world.cluster.restore_epochs(backup)
        world.later(10 * world.plan.beat * dice.random(), lambda: world.kill_canary(after=10 * dice.random()))

    return back


OLD_BEATS, KNOWN_BEATS = (40, 120), (20, 60)
"""For so many intervals brokers tell no topic ids; a topic is made again so many intervals later."""


@harm(0.5)
def old_brokers(world: World, dice: random.Random) -> None:
    """From the beginning on brokers tell no topic ids, then they do (an upgrade); later a topic is made again."""
    if world.schedule.now > 0:
        return
    beat = world.plan.beat
    world.cluster.tell_ids(told=False)
    upgraded = beat * dice.uniform(*OLD_BEATS)
    world.later(upgraded, lambda: world.cluster.tell_ids(told=True))
    again = dice.getrandbits(32)
    world.later(upgraded + beat * dice.uniform(*KNOWN_BEATS), lambda: recreate_topic(world, random.Random(again)))


OPEN_BEATS = 20
"""For so many intervals an open transaction is waited for."""


def _once_open(world: World, mode: str, then: Callable[[int], object], never: Callable[[], object]) -> None:
    """Call ``then`` with its coordinator when a transaction of a mode is to be ended, and keep it open.

    It is one of which a log is led by another broker. ``never`` is called if none is found for OPEN_BEATS.
    """
    topic, ends = world.topic_of(mode), world.cluster.transactions.on_end

    def ending(broker: int, known: Transaction) -> bool:
        leaders = {world.cluster.leader(*place) for place in known.places if place[0] == topic}
        if world.settling or not leaders - {broker, -1}:
            return False
        ends.remove(ending)
        then(broker)
        world.note_health()
        return True

    def over() -> None:
        if ending in ends:
            ends.remove(ending)
            never()

    ends.append(ending)
    world.later(OPEN_BEATS * world.plan.beat, over)


@harm()
def switch_off(world: World, dice: random.Random) -> End | None:
    """A mode is taken out of the settings while a transaction of it is open, if it has any; later maybe put back.

    The canary is cut off from the coordinator, so that it cannot commit, and still sees the transaction in the logs of
    other leaders: it looks at them twice or so before it is started again without the mode.
    """
    on = world.modes_on()
    modes = [mode for mode in on if mode not in {WORKLOADS[other].source for other in on}]
    if len(on) < 2:
        return None
    opening = [mode for mode in modes if WORKLOADS[mode].transactional]
    mode = dice.choice(opening) if opening and dice.random() < 0.7 else dice.choice(modes)
    again, hold_s = dice.random() < 0.5, 2 * world.plan.beat * (0.5 + dice.random())
    after = 5 * dice.random()

    def cut_off(broker: int) -> None:
        heal = _cut(world, ("canary", broker))
        world.later(hold_s, off)
        world.later(hold_s, heal)

    def off() -> None:
        if not world.settling:
            world.switched_off |= {mode}
            world.kill_canary(after=after)

    def back() -> None:
        if again and mode in world.switched_off:
            world.switched_off -= {mode}
            world.stop_canary(after=after)

    if mode in opening:
        _once_open(world, mode, cut_off, off)
    else:
        off()
    return back


@harm(0.5)
def refuse_producers(world: World, dice: random.Random) -> End:
    """A right is taken away, and the canary is started again: each of its idempotent clients dies at once."""
    world.cluster.refuses = True
    world.kill_canary(after=10 * dice.random())
    return lambda: setattr(world.cluster, "refuses", False)


# the canary's process, disk, store and clock


@harm(3)
def kill_canary(world: World, dice: random.Random) -> None:
    world.kill_canary(after=dice.choice((1.0, 10.0, 120.0)) * dice.random())


@harm()
def stop_canary(world: World, dice: random.Random) -> None:
    world.stop_canary(after=dice.choice((1.0, 10.0, 120.0)) * dice.random())


@harm()
def freeze_canary(world: World, dice: random.Random) -> End:
    process = world.process
    world.freeze(process)
    return lambda: world.schedule.resume(process)


@harm(2)
def power_cut_canary(world: World, dice: random.Random) -> None:
    world.kill_canary(after=30 * dice.random(), power=dice)


Faulty = Callable[[LyingDisk, random.Random], Fault]
_FAULTS: dict[str, Faulty] = {
    "full": lambda disk, _: disk.fail("write", "create", error=errno.ENOSPC),
    "failing": lambda disk, dice: disk.fail("write", error=errno.EIO, chance=dice.random()),
    "short": lambda disk, dice: disk.fail("short write", chance=dice.random()),
    "unsynced": lambda disk, dice: disk.fail("fsync", error=errno.EIO, chance=dice.random()),
    "unnamed": lambda disk, dice: disk.fail("rename", error=errno.EIO, chance=dice.random()),
    "read-only": lambda disk, _: disk.read_only(),
    "scarce": lambda disk, _: disk.fail("open", "entries", "read", "create", error=errno.EMFILE),
    "unread": lambda disk, dice: disk.fail("read", error=errno.EIO, chance=dice.random()),
    "slow": lambda disk, dice: disk.slow("fsync", delay_s=20 * dice.random()),
}


def _disk_harm(name: str, faulty: Faulty) -> None:
    def begin(world: World, dice: random.Random) -> End:
        fault = faulty(world.disk, dice)
        return lambda: world.disk.heal(fault)

    HARMS[f"disk-{name}"] = Harm(f"disk-{name}", begin, 0.7)


for _name, _faulty in _FAULTS.items():
    _disk_harm(_name, _faulty)


@harm(0.5)
def lying_fsync(world: World, dice: random.Random) -> End:
    """The disk says that it has what it does not have, until the power goes."""
    fault, since = world.disk.fail("lying fsync"), world.schedule.now

    def back() -> None:
        world.disk.heal(fault)
        world.kill_canary(after=10 * dice.random(), power=dice)
        world.truth.unkept(since)

    return back


@harm(0.5)
def wipe_ledger(world: World, dice: random.Random) -> None:
    world.kill_canary(after=10 * dice.random())
    world.disk.wipe(LEDGER)


@harm(0.5)
def rot_ledger(world: World, dice: random.Random) -> None:
    files = sorted(world.disk.entries(LEDGER / "c" / "r")) if world.disk.exists(LEDGER / "c" / "r") else []
    segments = [path for path in files if path.suffix == ".ledger"]
    if segments:
        world.disk.rot(dice.choice(segments))


@harm(0.5)
def old_ledger(world: World, dice: random.Random) -> End:
    """The ledger is put back from a backup; what became durable since and was shown to nobody, nobody can know of."""
    is_there = world.disk.exists(LEDGER / "c" / "r") and world.knows_ids()
    backup = world.disk.backup(LEDGER) if is_there else None
    since = world.schedule.now

    def back() -> None:
        if backup is not None:
            world.kill_canary(after=10 * dice.random())
            world.disk.restore(LEDGER, backup)
            if _held(world) >= _shown(world):
                world.truth.unkept(since)

    return back


def _held(world: World) -> int:
    """Return how many facts the ledger on the disk tells of."""
    recovery = recovery_of(find_chain(LEDGER / "c" / "r", world.disk))
    return unseal(recovery.state).tracker.state.ordinal + sum(len(batch) for batch in recovery.facts)


def _shown(world: World) -> int:
    """Return of how many facts the last view tells that the store has."""
    view = world.store.store.views.get("c", "r")
    return 0 if view is None else int(orjson.loads(view.view)["ordinal"])


@harm()
def store_away(world: World, dice: random.Random) -> End:
    world.store.away = True
    return lambda: setattr(world.store, "away", False)


@harm()
def store_unanswered(world: World, dice: random.Random) -> End:
    """Commits happen, and their answers are lost."""
    world.store.unanswered = 0.2 + 0.6 * dice.random()
    return lambda: setattr(world.store, "unanswered", 0.0)


@harm()
def store_refuses(world: World, dice: random.Random) -> End:
    world.store.refused = 0.2 + 0.6 * dice.random()
    return lambda: setattr(world.store, "refused", 0.0)


@harm(0.5)
def store_slow(world: World, dice: random.Random) -> End:
    world.store.delay_s = 10 * dice.random()
    return lambda: setattr(world.store, "delay_s", 0.0)


@harm(0.4)
def lose_lease(world: World, dice: random.Random) -> None:
    world.store.take_leases("another runner")


@harm(0.4)
def old_store(world: World, dice: random.Random) -> End:
    """The store is put back from a backup, while the canary is down, as its documentation says."""
    backup = world.store.backup()
    return lambda: _change_store(world, dice, lambda: world.store.restore(backup))


@harm(0.5)
def store_fails_over(world: World, dice: random.Random) -> End:
    """The database forgets its last transactions, which it had confirmed, while the canary runs."""
    backup = world.store.backup()
    return lambda: world.store.restore(backup)


@harm(0.3)
def wipe_store(world: World, dice: random.Random) -> None:
    _change_store(world, dice, world.store.wipe)


@harm(0.4)
def restored_as_documented(world: World, dice: random.Random) -> End:
    """The store is put back, and the ledger, of which there is no backup, is gone; maybe there was a start between."""
    backup = world.store.backup()
    if dice.random() < 0.5:
        world.kill_canary(after=1.0)

    def back() -> None:
        _change_store(world, dice, lambda: world.store.restore(backup))
        world.disk.wipe(LEDGER)

    return back


@harm(0.5)
def step_clock(world: World, dice: random.Random) -> None:
    by_s = dice.choice((-3600, -60, -1, 1, 60, 3600)) * dice.random()
    world.process.clock_ns += int(by_s * 1e9)
    world.clock_ns = world.process.clock_ns
    if dice.random() < 0.5:
        world.kill_canary(after=1.0)


@harm(0.5)
def clock_ahead(world: World, dice: random.Random) -> End:
    """The canary's machine is started with a clock that is ahead; later it is set right, and started again."""
    by_ns = int(dice.choice((1, 2, 4)) * world.plan.retention_s * 1e9)
    world.kill_canary(after=1 + 5 * dice.random())
    world.clock_ns += by_ns

    def back() -> None:
        world.kill_canary(after=1 + 5 * dice.random())
        world.clock_ns -= by_ns

    return back


# what no sound cluster does: the bugs of the seeds


BUG_BEATS = 40
"""A bug stays for up to so many intervals more: it meets one write in a hundred, or in ten."""


def _bug_harm(name: str) -> None:
    def begin(world: World, dice: random.Random) -> End:
        world.cluster.bugs.add(name)
        world.cluster.chance[name] = dice.choice((0.01, 0.1))
        stays = BUG_BEATS * world.plan.beat * dice.random()
        return lambda: world.later(stays, lambda: world.cluster.bugs.discard(name))

    HARMS[f"bug-{name}"] = Harm(f"bug-{name}", begin, 0.5, breaks=True)


for _name in (
    "retried-commit-is-abort",
    "aborted-read",
    "offsets-reused",
    "zombie-let-in",
    "ack-before-write",
    "mistaken-duplicate",
    "duplicated",
    "swapped",
):
    _bug_harm(_name)

WEIGHTS = {name: one.weight for name, one in HARMS.items()}
"""How often each harm is struck, beside others."""

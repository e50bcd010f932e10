"""Harms of the canary's disk, and of its ledger there."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path

import orjson

from canary.runner.publishing.snapshot import unseal
from simulation.harms.harm import End, Harms
from simulation.machine.disk import LyingDisk
from simulation.machine.faults import Fault
from simulation.world.world import World
from storage.ledger.recovery import find_chain, recovery_of

LEDGER = Path("/world/ledger")

LEDGER_HARMS = Harms()

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

    LEDGER_HARMS.enter(f"disk-{name}", begin, 0.7)


for _name, _faulty in _FAULTS.items():
    _disk_harm(_name, _faulty)


@LEDGER_HARMS.harm(0.5)
def lying_fsync(world: World, dice: random.Random) -> End:
    """The disk says that it has what it does not have, until the power goes."""
    fault, since = world.disk.fail("lying fsync"), world.schedule.now

    def back() -> None:
        world.disk.heal(fault)
        world.kill_canary(after=10 * dice.random(), power=dice)
        world.truth.unkept(since)

    return back


@LEDGER_HARMS.harm(0.5)
def wipe_ledger(world: World, dice: random.Random) -> None:
    """The ledger is gone at the canary's next start."""
    world.kill_canary(after=10 * dice.random())
    world.disk.wipe(LEDGER)


@LEDGER_HARMS.harm(0.5)
def rot_ledger(world: World, dice: random.Random) -> None:
    """A bit of a segment flips."""
    files = sorted(world.disk.entries(LEDGER / "c" / "r")) if world.disk.exists(LEDGER / "c" / "r") else []
    segments = [path for path in files if path.suffix == ".ledger"]
    if segments:
        world.disk.rot(dice.choice(segments))


@LEDGER_HARMS.harm(0.5)
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

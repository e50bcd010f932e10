"""Harms of the store's database."""

from __future__ import annotations

import random
from collections.abc import Callable

from simulation.harms.harm import End, Harms
from simulation.harms.ledger import LEDGER
from simulation.world.world import World

STORE = Harms()


def _change_store(world: World, dice: random.Random, change: Callable[[], object]) -> None:
    """Change the store while the canary is down."""
    world.kill_canary(after=1 + 10 * dice.random())
    world.cluster.answers_as = None  # a store that knows no cluster takes the first one for its own
    world.cluster.end_another()
    change()


@STORE.harm()
def store_away(world: World, dice: random.Random) -> End:
    """The database does not answer."""
    world.store.away = True
    return lambda: setattr(world.store, "away", False)


@STORE.harm()
def store_unanswered(world: World, dice: random.Random) -> End:
    """Commits happen, and their answers are lost."""
    world.store.unanswered = 0.2 + 0.6 * dice.random()
    return lambda: setattr(world.store, "unanswered", 0.0)


@STORE.harm()
def store_refuses(world: World, dice: random.Random) -> End:
    """Calls of the database fail by chance."""
    world.store.refused = 0.2 + 0.6 * dice.random()
    return lambda: setattr(world.store, "refused", 0.0)


@STORE.harm(0.5)
def store_slow(world: World, dice: random.Random) -> End:
    """The database answers late."""
    world.store.delay_s = 10 * dice.random()
    return lambda: setattr(world.store, "delay_s", 0.0)


@STORE.harm(0.4)
def lose_lease(world: World, dice: random.Random) -> None:
    """Another runner has taken the canary's lease."""
    world.store.take_leases("another runner")


@STORE.harm(0.4)
def old_store(world: World, dice: random.Random) -> End:
    """The store is put back from a backup, while the canary is down, as its documentation says."""
    backup = world.store.backup()
    return lambda: _change_store(world, dice, lambda: world.store.restore(backup))


@STORE.harm(0.5)
def store_fails_over(world: World, dice: random.Random) -> End:
    """The database forgets its last transactions, which it had confirmed, while the canary runs."""
    backup = world.store.backup()
    return lambda: world.store.restore(backup)


@STORE.harm(0.3)
def wipe_store(world: World, dice: random.Random) -> None:
    """The database is empty at the canary's next start."""
    _change_store(world, dice, world.store.wipe)


@STORE.harm(0.4)
def restored_as_documented(world: World, dice: random.Random) -> End:
    """The store is put back, and the ledger, of which there is no backup, is gone; maybe there was a start between."""
    backup = world.store.backup()
    if dice.random() < 0.5:
        world.kill_canary(after=1.0)

    def back() -> None:
        _change_store(world, dice, lambda: world.store.restore(backup))
        world.disk.wipe(LEDGER)

    return back

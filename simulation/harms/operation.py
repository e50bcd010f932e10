"""What an operator does to the whole cluster, or to the settings."""

from __future__ import annotations

import random
from collections.abc import Callable

from canary.workloads.catalogue import WORKLOADS
from simulation.cluster.cluster import Cluster
from simulation.cluster.coordinators import Transaction
from simulation.harms.harm import End, Harms, parted
from simulation.harms.topics import recreate_topic
from simulation.kafka.contract import Batch
from simulation.world.world import World

OPERATION = Harms()


@OPERATION.harm()
def other_cluster(world: World, dice: random.Random) -> End | None:
    """Another cluster's id answers behind the address."""
    if world.process.dead or world.runner is None or not world.runner.probing.is_set():
        return None  # the first cluster that answers is the known one
    world.cluster.answers_as = "another-cluster-000001"
    if dice.random() < 0.3:
        world.kill_canary(after=10 * dice.random())
    return lambda: setattr(world.cluster, "answers_as", None)


@OPERATION.harm()
def led_elsewhere(world: World, dice: random.Random) -> End | None:
    """New connections reach another cluster, and those that are open stay, until they break: each for itself.

    When the address leads home again, clients that are in the other cluster stay there until that ends.
    """
    known = world.cluster
    if world.process.dead or world.runner is None or not world.runner.probing.is_set() or known.another is not None:
        return None
    known.lead_elsewhere(_another(world, dice))
    for broker in dice.sample(list(known.brokers()), dice.choice((0, 1, 3))):  # what breaks is opened again
        world.later(world.plan.beat * dice.random(), parted(world, ("canary", broker)))
    stay_s = 10 * world.plan.beat * dice.choice((0.0, dice.random()))

    def back() -> None:
        known.lead_home()
        world.later(stay_s, known.end_another)

    return back


def _another(world: World, dice: random.Random) -> Cluster:
    """Return a cluster with topics of the same names: of higher epochs or lower, with more records or fewer."""
    known, number = world.cluster, dice.randrange(10**6)
    other = Cluster(known.schedule, dice, cluster_id=f"another-cluster-{number:06}", ids=known.ids)
    brokers, now_ms = list(other.brokers()), other.wall_ms()
    for topic in world.topics():
        logs = [known.log(topic, partition) for partition in range(world.plan.partitions)]
        ends = [log[-1].offset if log else 0 for log in logs]
        other.create_topic(brokers[0], topic, [brokers] * len(ends), {})
        for partition, end in enumerate(ends):
            for _ in range(dice.choice((0, 5, 50))):
                other.elect(topic, partition, dice.choice(brokers))
            batch = Batch([(None, b"another's", now_ms)] * int(2 * end * dice.choice((0.0, dice.random()))))
            if batch.records:
                leader = other.leader(topic, partition)
                other.produce("elsewhere", leader, topic, partition, batch, 1, 1.0, lambda _: None)
    return other


@OPERATION.harm()
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


@OPERATION.harm(0.5)
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


@OPERATION.harm()
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
        heal = parted(world, ("canary", broker))
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


@OPERATION.harm(0.5)
def refuse_producers(world: World, dice: random.Random) -> End:
    """A right is taken away, and the canary is started again: each of its idempotent clients dies at once."""
    world.cluster.refuses = True
    world.kill_canary(after=10 * dice.random())
    return lambda: setattr(world.cluster, "refuses", False)

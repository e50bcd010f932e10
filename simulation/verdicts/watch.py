"""An operator's look at the page: what it says is held against what is so at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from api.judgement.safety import judge
from api.state import State
from canary.workloads.catalogue import WORKLOADS
from simulation.machine.schedule import Process
from simulation.machine.system import EPOCH_NS
from storage.store import StoreError

if TYPE_CHECKING:
    from simulation.world.world import World

LOOK_S = 20.0
DEAD_S = 30.0
"""When the canary has been dead, or could not write its ledger, for so long, no page may say that all is well."""

GRACE_S = 60.0
"""What the canary knows is on the page by then."""


class Watch:
    """Looks at the page every LOOK_S seconds; ``wrong`` has what it must not have said."""

    def __init__(self, world: World) -> None:
        self.wrong: list[str] = []
        self._world = world
        self._blocked_since: float | None = None
        self._home = 0.0
        """Since when no client may be in another cluster."""
        nothing = cast("Any", None)
        self._state = State(
            world.store.store,
            nothing,
            nothing,
            nothing,
            nothing,
            ("c",),
            world.settings.api,
            now_ns=lambda: EPOCH_NS + round(world.schedule.now * 1e9),
            monotonic=lambda: world.schedule.now,
        )

    def begin(self) -> None:
        """Look again and again, in a process of its own."""
        self._world.schedule.spawn(Process("api"), self._run, "page")

    def _run(self) -> None:
        schedule = self._world.schedule
        while not self._world.over:
            schedule.park(schedule.now + LOOK_S)
            if self._world.cluster.another is not None:
                self._home = schedule.now
            self.look()

    def _unproven(self) -> str | None:
        """Return what no page may pass over: a mode that promises nothing, or a promise that nobody was given."""
        world, now = self._world, self._world.schedule.now
        late_s = GRACE_S + 3 * max(world.plan.beat, 10.0)
        waits = [(at, name) for name, at in world.truth.unread.items() if now - max(at, world.woke) > late_s]
        for at, name in waits:
            fate = world.truth.fates.get(name)
            if fate is not None and fate.copies > 0 and fate.topic_id in world.chronicle.ids[fate.topic][-1:]:
                return f"no consumer was given offset {fate.offset} of {fate.topic}, promised at {at:.0f} s"
        for topic in world.topics_of(world.modes_on()) if world.cluster.ids else ():
            known, ids = world.truth.known_ids.get(topic), world.chronicle.ids[topic]
            if (
                known is not None
                and known != ids[-1]
                and now - max(world.chronicle.made_at(topic), world.began, world.woke, self._home) > late_s
            ):
                return f"{topic} has the id {ids[-1]}, and not {known}, since {world.chronicle.made_at(topic):.0f} s"
        modes = world.settings.clusters[0].modes.enabled()
        for mode, topic in set(world.truth.producers.values()):
            silent_s = GRACE_S + max(10 * modes[mode].interval, 60.0)
            last = max(world.truth.promised_at.get((mode, topic), 0.0), world.began, world.woke, self._home)
            if WORKLOADS[mode].topic != "none" and mode in world.modes_on() and now - last > silent_s:
                return f"the mode {mode} has promised nothing since {last:.0f} s"
        return None

    def look(self) -> None:
        """Look once."""
        world = self._world
        try:
            knowledge = self._state._read()  # noqa: SLF001  # what its thread does once in a second
        except StoreError:
            return
        view = knowledge.clusters.get("c")
        if view is None:
            return
        judgement = judge(view, knowledge)
        if judgement.level not in {"safe", "watch"}:
            return
        at = f"{world.schedule.now:.0f} s: {judgement.sentence!r}"
        if world.silent_for() > DEAD_S:
            self.wrong.append(f"{at} though the canary is dead or frozen for {world.silent_for():.0f} s")
        elif world.blocked_for() > DEAD_S:
            self.wrong.append(f"{at} though no fact became durable for {world.blocked_for():.0f} s")
        elif (unproven := self._unproven()) is not None:
            self.wrong.append(f"{at} though {unproven}")
        elif any(one.kind == "lost-write" and one.severity == "critical" for _, one in world.truth.violations):
            self.wrong.append(f"{at} though a lost write was said")

"""An operator's look at the page: what it says is held against what is so at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from api.judgement.safety import judge
from api.state import State
from simulation.machine.schedule import Process
from simulation.machine.system import EPOCH_NS
from storage.store import StoreError

if TYPE_CHECKING:
    from simulation.world.world import World

LOOK_S = 20.0
DEAD_S = 30.0
"""When the canary has been dead, or could not write its ledger, for so long, no page may say that all is well."""


class Watch:
    """Looks at the page every LOOK_S seconds; ``wrong`` has what it must not have said."""

    def __init__(self, world: World) -> None:
        self.wrong: list[str] = []
        self._world = world
        self._blocked_since: float | None = None
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
            self.look()

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
        elif any(one.kind == "lost-write" and one.severity == "critical" for _, one in world.truth.violations):
            self.wrong.append(f"{at} though a lost write was said")

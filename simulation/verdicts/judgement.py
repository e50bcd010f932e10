"""The verdict on a life: everything that went wrong in it, each with a word of docs/testing.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.verdicts.agreement import disagreements, stopped
from simulation.verdicts.justified import false
from simulation.verdicts.losses import late, made_up, missed, repeated, unsaid, unwatched
from simulation.world.outcome import Wrong
from storage.store.cursors import MAX_LIMIT

if TYPE_CHECKING:
    from simulation.verdicts.costs import Costs
    from simulation.world.world import World
    from storage.store.values import StoredViolation

ENDING = frozenset(
    {
        "another-cluster",
        "blind",
        "cluster-offline",
        "isr-of-one",
        "offline-partition",
        "stalled",
        "under-min-isr",
        "unwritable",
    }
)
"""Conditions that must have ended once all is well."""


def judged(world: World, costs: Costs) -> list[Wrong]:
    """Return what went wrong in a life that has come to its end; ``world.outcome`` gets how many promises it had."""
    truth = world.truth
    world.outcome.promises = len(truth.promised)
    world.outcome.broken = len(truth.broken())
    return [
        *missed(world),
        *unsaid(world),
        *unwatched(world),
        *made_up(world),
        *_unjustified(world),
        *_unfiled(world),
        *repeated(world),
        *late(world),
        *(Wrong("TWICE", f"two processes sent {what}") for what in truth.twice[:1]),
        *(Wrong("COSTLY", what) for what in (*truth.costly[:1], *costs.too_much())),
        *_stuck(world),
        *(Wrong("CRASH", f"{task.name}: {task.failure!r}") for task in world.process.tasks if task.failure is not None),
    ]


def halted(world: World, costs: Costs) -> list[Wrong]:
    """Return what a life cost that was halted because it cost too much."""
    return [Wrong("COSTLY", what) for what in (*world.truth.costly[:1], *costs.turns())]


def compared(world: World) -> list[Wrong]:
    """Stop the canary, and hold against one another what online, the checker and the night say."""
    if any(one.what in {"STUCK", "CRASH"} for one in world.outcome.wrong):
        return []  # what it did not do any more it could not ship
    if stopped(world):
        return [Wrong("DISAGREE", what) for what in disagreements(world)]
    return [Wrong("STUCK", "it does not end when it is asked to")]


def _stuck(world: World) -> Iterator[Wrong]:
    """Yield what has not come back though all is well again."""
    if world.process.dead or world.judge is None or world.runner is None or not world.runner.probing.is_set():
        yield Wrong("STUCK", "it does not probe again, though all is well")
    hung = world.cluster.hung(world.settle_beats * world.plan.beat / 2)
    for row in world.store.store.violations.unended("c", ENDING):
        if not (row.kind == "stalled" and (row.topic, row.partition) in hung):
            yield Wrong("STUCK", f"{row.kind} is still open: {row.summary}")


def _unjustified(world: World) -> Iterator[Wrong]:
    """Yield each violation of which the world has no such fact; each once."""
    seen: set[str] = set()
    for told, one in world.truth.violations:
        if one.key("c") not in seen:
            seen.add(one.key("c"))
            why = false(world, one, told)
            if why:
                said = f"{one.severity} {one.kind} {one.topic}[{one.partition}] {one.offset} at {told:.1f} s"
                yield Wrong("FALSE", f"{said}: {why}: {one.summary}")


def _unfiled(world: World) -> Iterator[Wrong]:
    """Yield a violation that the store has not, though it was told, and the canary does not say that it forgot."""
    told = {one.key("c"): one for _, one in world.truth.violations}
    if any(one.kind == "memory-lost" for one in told.values()):
        return
    rows = list(_filed(world))
    ids = {row.id for row in rows}
    ranges = defaultdict(list)  # a part of what is filed already is not filed again
    for row in rows:
        if row.offset is not None and row.last_offset is not None:
            ranges[row.kind, row.topic, row.partition].append((row.offset, row.last_offset))
    for key, one in told.items():
        known = ranges[one.kind, one.topic, one.partition]
        if key not in ids and not any(start <= (one.offset or 0) <= end for start, end in known):
            yield Wrong("UNFILED", f"{one.kind} is not in the store any more: {one.summary}")


def _filed(world: World) -> Iterator[StoredViolation]:
    """Yield all that the store has; a broken cluster may lose a thousand times, and a page has no more."""
    cursor: str | None = None
    while True:
        page = world.store.store.violations.page(cursor=cursor, limit=MAX_LIMIT)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return

"""What a life may cost: state, ledger and work are bounded by partitions and by what is open or was broken.

Nothing here may grow with messages, days or transactions. *Breaks* are what may leave a mark for as long as records
are kept: starts, generations, and the intervals in which a harm was at work. A calm life has a handful of them in a
thousand intervals, so that whatever grows with messages is far beyond its bound there.

What does grow, and is left out: a log's ``timeline`` (an entry an interval, up to its own cap); and in modes with
transactions what markers and aborts break: ``places``, ``transactions``, ``promised``, ``failed`` and ``early`` of a
stream, ``claims`` and ``promised`` of a log (a few runs for each retained transaction). While a transaction hangs, so
does ``unseen``: all above it waits, and what is aborted there breaks it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canary.anomalies.online.codec import dumps
from canary.anomalies.online.stream import SENT_KEPT
from canary.facts import GenerationBegan

if TYPE_CHECKING:
    from canary.anomalies.online.log import Log
    from canary.anomalies.online.state import State, Topic
    from canary.anomalies.online.stream import Stream
    from simulation.world.world import World

SAMPLE_BEATS = 10
"""For so many intervals turns are counted together: what comes seldom (an audit, a seal) is no loop."""
STEPS_BEAT, STEPS_PLACE, STEPS_S = 200, 40, 12
"""In an interval the tasks of a canary take at most so many turns, and so many more for each partition of a mode; and
for each second, once and for each mode: clients without a connection try again ten times a second."""
MARKER_BROKEN = frozenset({"places", "transactions", "promised", "failed", "early", "claims"})
"""Where a transaction that is retained may have a run of its own."""
RUNS, RUNS_BREAK = 24, 4
"""Runs, intervals and entries that a container may have without any break, and for each break."""
GROWING = frozenset({"timeline", "sent_keys", "sent_times"}) | MARKER_BROKEN
"""Not counted in the snapshot's bytes; all but the timeline have bounds of their own where they are bounded."""
BYTES, BYTES_LOG, BYTES_STREAM, BYTES_BREAK = 10_000, 6_000, 2_000, 150
"""What a snapshot may have at all, for each partition, for each generation in one, and for each break."""
SEGMENTS = 3
"""The segment that is written, the one being shipped, and one that begins."""
LEDGER = Path("/world/ledger")


class Costs:
    """Counts turns while a world lives, and looks at its state at the end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._state: list[str] | None = None

    def begin(self) -> None:
        """Allow so many turns from now on, again and again; a life that takes more of them is halted there."""
        world = self._world
        world.schedule.most_steps = world.schedule.steps + self._allowed
        world.schedule.after(SAMPLE_BEATS * world.plan.beat, self.begin)

    @property
    def _allowed(self) -> int:
        """How many turns SAMPLE_BEATS intervals may take."""
        plan = self._world.plan
        modes = len(plan.modes)
        return SAMPLE_BEATS * round(
            STEPS_BEAT + STEPS_PLACE * plan.partitions * modes + STEPS_S * (1 + modes) * plan.beat
        )

    def turns(self) -> Iterator[str]:
        """Yield whether tasks took more turns than they may."""
        schedule = self._world.schedule
        if schedule.steps > schedule.most_steps:
            yield f"more than {self._allowed} turns of tasks in {SAMPLE_BEATS} intervals"

    def too_much(self) -> Iterator[str]:
        """Yield what costs more than it may."""
        if self._state is None:
            self.look()
        yield from self._state or ()

    def look(self) -> None:
        """Note what costs too much now: each record that is lost by itself later may leave a mark of its own."""
        world = self._world
        state = world.remembered()
        if state is not None and not world.process.dead:
            self._state = [*_state(state, breaks_of(world)), *self._ledger()]

    def _ledger(self) -> Iterator[str]:
        disk, folder = self._world.disk, LEDGER / "c" / "r"
        segments = [path.name for path in disk.entries(folder) if path.suffix == ".ledger"]
        if len(segments) > SEGMENTS:
            yield f"{len(segments)} segments are kept: {', '.join(segments[:5])}"


def breaks_of(world: World) -> int:
    """Return in how many intervals something may have been broken, with starts and generations."""
    beat = world.plan.beat
    generations = sum(isinstance(fact, GenerationBegan) for fact in world.facts)
    return 1 + world.starts + generations + sum(round(1 + one.lasts / beat) for one in world.plan.strikes)


def _state(state: State, breaks: int) -> Iterator[str]:
    logs = sum(len(topic.logs) for topic in state.topics.values())
    streams = sum(len(topic.index) for topic in state.topics.values())
    for topic in state.topics.values():
        yield from _topic(topic, breaks)
    for name, most in (("asks", 8), ("errors", 10), ("stalls", 4 * logs + 8), ("transactions", 4 + breaks)):
        held = len(getattr(state, name))
        if held > most:
            yield f"the state holds {held} {name}; {most} are allowed"
    size = len(dumps(_without(state)))
    allowed = BYTES + BYTES_LOG * logs + BYTES_STREAM * streams + BYTES_BREAK * breaks
    if size > allowed:
        yield f"the snapshot has {size} bytes without what may grow; {allowed} are allowed"


def _topic(topic: Topic, breaks: int) -> Iterator[str]:
    transactional = any(stream.transactions for stream in topic.streams)
    streams = [topic.streams[tag] for tag in topic.index.values()]
    remembered: list[Log | Stream] = [*topic.logs.values(), *streams]
    for held in remembered:
        log = topic.logs.get(held.partition)
        hidden = log is not None and (log.stable or 0) < (log.end or 0)
        broken = MARKER_BROKEN | ({"unseen"} if hidden else set())
        for name, runs in _runs(held).items():
            if runs > RUNS + RUNS_BREAK * breaks and not (transactional and name in broken):
                yield f"{name} of {topic.name}[{held.partition}] has {runs} runs after {breaks} breaks"
    for stream in streams:
        if len(stream.sent_keys) > 3 * SENT_KEPT:
            yield f"{len(stream.sent_keys)} sending times of {topic.name}[{stream.partition}]"


def _runs(held: Log | Stream) -> Counter[str]:
    """Return how many runs, intervals or entries each container of a log or a stream has."""
    found: Counter[str] = Counter()
    for field in dataclasses.fields(held):
        value: Any = getattr(held, field.name)
        if field.name in {"timeline", "sent_keys", "sent_times"}:
            continue
        inner = value.values() if isinstance(value, dict) else ()
        parts = [one for one in inner if hasattr(one, "starts") or hasattr(one, "keys")]
        if hasattr(value, "starts"):
            found[field.name] = len(value.starts) + sum(one[1] for one in value.past)
        elif hasattr(value, "counts"):
            found[field.name] = len(value.keys) + sum(one[1] for one in value.past)
        elif isinstance(value, dict | list):
            found[field.name] = len(value) + sum(
                len(getattr(one, "starts", getattr(one, "counts", ()))) for one in parts
            )
    return found


def _without(state: State) -> State:
    """Return a state without what may grow."""
    topics = {}
    for name, topic in state.topics.items():
        streams = [_emptied(one) for one in topic.streams]
        topics[name] = dataclasses.replace(
            topic, streams=streams, logs={number: _emptied(one) for number, one in topic.logs.items()}
        )
    return dataclasses.replace(state, topics=topics)


def _emptied(held: Any) -> Any:
    empty = {
        field.name: type(getattr(held, field.name))() for field in dataclasses.fields(held) if field.name in GROWING
    }
    return dataclasses.replace(held, **empty)

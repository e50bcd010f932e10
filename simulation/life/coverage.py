"""Which harm met the tracker in which state: what was looked at, and what never was.

A strike meets every state that holds at that moment, so one strike may count in several columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

from canary.anomalies.online.wanted import BESIDE, RANDOM, SCRUB
from canary.anomalies.policy import CONDITIONS

if TYPE_CHECKING:
    from canary.anomalies.online.log import Log
    from canary.anomalies.online.state import State, Topic
    from simulation.world.world import World

OF_PROCESS = ("dead", "frozen", "starting", "opening", "blocked")
"""States of the canary's process. It has a tracker from ``opening`` on; ``blocked``: no fact becomes durable."""
CALM = "calm"
"""Nothing is open, in doubt or asked: none of the states holds, but those in LASTING."""


def _waits(log: Log, *waits: str) -> bool:
    """Return whether a probe that was not found waits in one of these ways (canary.anomalies.online.log.Missing)."""
    return any(one.state in waits for one in log.missing) or any(one.state in waits for one in log.unplaced)


OF_LOG: dict[str, Callable[[Log], object]] = {
    "a loss is to be read again": lambda log: _waits(log, "ask", "asked"),
    "a loss is beyond the log's end": lambda log: _waits(log, "beyond"),
    "a loss awaits its confirmation": lambda log: _waits(log, "absent"),
    "a promise has no offset": lambda log: log.unplaced,
    "another violation is held": lambda log: log.held,
    "the log's end went back, once": lambda log: log.regression,
    "a truncation is to be reported": lambda log: log.cut or log.lost_offsets,
    "a former leader has answered": lambda log: log.former_rereads,
    "an offset has two probes": lambda log: log.conflicted,
    "the tail is to be read again": lambda log: log.wanted,
    "the tail is read again": lambda log: any(one.reason not in BESIDE for one in log.rereads.values()),
    "the scrubber reads": lambda log: any(one.reason == SCRUB for one in log.rereads.values()),
    "a random place is read": lambda log: any(one.reason == RANDOM for one in log.rereads.values()),
    "the epoch is new": lambda log: log.epoch is not None and log.known_end and log.whole_epoch != log.epoch,
    "a transaction is open below the end": lambda log: log.stable is not None and log.stable < (log.end or 0),
    "the leader alone has a record": lambda log: log.alone,
    "a reader is astray": lambda log: any(one.astray for one in log.readers.values()),
    "promises expired, retention unknown": lambda log: log.expiry,
    "it has not answered since the start": lambda log: not log.listed_ordinal,
    "the log's start rose": lambda log: log.start,
}
"""By name, whether it is so in a partition."""

OF_TOPIC: dict[str, Callable[[Topic], object]] = {
    "an acknowledged write is unseen": lambda topic: any(
        unseen for stream in topic.streams for unseen in stream.unseen.values()
    ),
    "a write has no outcome": lambda topic: any(stream.open for stream in topic.streams if stream.live),
    "a write's outcome is never known": lambda topic: any(stream.indeterminate for stream in topic.streams),
    "a loss was said": lambda topic: any(stream.lost for stream in topic.streams),
    "the topic's id is unknown": lambda topic: topic.topic_id is None,
    "the topic is gone": lambda topic: topic.gone_since_ns is not None,
    "the topic was made again": lambda topic: topic.dead_ids,
}
"""The same, in a topic that is probed."""

OF_ALL: dict[str, Callable[[State], object]] = {
    "a transaction's outcome is open": lambda state: any(one.outcome == "open" for one in state.transactions.values()),
    "a transaction is indeterminate": lambda state: any(
        one.outcome == "indeterminate" for one in state.transactions.values()
    ),
    "an unknown producer's probe was read": lambda state: state.doubts,
    "a partition is degraded": lambda state: state.topology.degraded,
    "an election is suspect": lambda state: state.topology.suspects,
    "something stands still": lambda state: any(one.said is None for one in state.stalls.values()),
    "questions have no answer": lambda state: state.silent_ns,
    "another cluster has answered": lambda state: state.stopped,
}
"""The same, in the whole of it."""

OF_CONDITIONS = {kind: f"open: {kind}" for kind in sorted(CONDITIONS - {"another-cluster"})}
"""By kind of a condition, the state that it was reported and holds (another cluster's is among OF_ALL)."""
MEMORY = "memory was lost"
LASTING = frozenset(
    {"the log's start rose", "a loss was said", "the topic was made again", MEMORY, "a write's outcome is never known"}
    | {"the scrubber reads", "an acknowledged write is unseen"}
)
"""States that last for most of a life once they begin; beside them a tracker may be calm."""
STATES = (*OF_PROCESS, CALM, *OF_LOG, *OF_TOPIC, *OF_ALL, *OF_CONDITIONS.values(), MEMORY)
"""Every state that a strike may meet."""


def of_tracker(state: State) -> Iterator[str]:
    """Yield the states that a tracker is in, by what it remembers."""
    topics = list(state.topics.values())
    logs = [log for topic in topics for log in topic.logs.values()]
    yield from (name for name, holds in OF_LOG.items() if any(map(holds, logs)))
    yield from (name for name, holds in OF_TOPIC.items() if any(map(holds, topics)))
    yield from (name for name, holds in OF_ALL.items() if holds(state))
    said = {one.said.kind for one in state.stalls.values() if one.said is not None}
    said |= {kind for (kind, _, _), one in state.topology.conditions.items() if one.said_ns is not None}
    yield from (name for kind, name in OF_CONDITIONS.items() if kind in said)


def states(world: World) -> list[str]:
    """Return the states that the canary of this world is in now."""
    runner, process, judge, state = world.runner, world.process, world.judge, world.remembered()
    if process.dead:
        return ["dead"]
    if runner is None or judge is None or state is None:
        return ["frozen"] if process.frozen else ["starting"]
    of_process = {"frozen": process.frozen, "opening": not runner.probing.is_set(), "blocked": judge.blocked}
    found = [*(name for name, holds in of_process.items() if holds), *of_tracker(state)]
    found += [MEMORY] if world.truth.memory_lost else []
    return found if set(found) - LASTING else [CALM, *found]


def table(pairs: Counter[tuple[str, str]], harms: Iterable[str]) -> str:
    """Return how often each harm struck in each state, as text: a column for each state, under its number."""
    names = list(harms)
    width = max(map(len, names))
    legend = [f"{number:4} {name}" for number, name in enumerate(STATES, 1)]
    half = (len(legend) + 1) // 2
    lines = [f"{left:45}{right}" for left, right in zip_longest(legend[:half], legend[half:], fillvalue="")]
    lines.append(" " * width + "".join(f"{number:4}" for number in range(1, len(STATES) + 1)))
    lines += [f"{name:{width}}" + "".join(f"{_short(pairs[name, one]):>4}" for one in STATES) for name in names]
    met = sum(1 for name in names for one in STATES if pairs[name, one])
    return "\n".join([*lines, f"{met} of {len(names) * len(STATES)} pairs of a harm and a state were met"])


def _short(count: int) -> str:
    """Return a number in at most three letters: ``.`` for none, ``2k`` for 2345."""
    return str(count or ".") if count < 1000 else f"{min(count // 1000, 99)}k"

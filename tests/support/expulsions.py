"""Expulsions of brokers: which the machine caused, not the test, and which left a partition without a leader."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from canary.lab import CONTROLLER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canary.lab.events import Event

EXPELLING: Final = frozenset({"stopped", "killed", "paused", "impaired"})
"""Actions after which a node is silent."""
RETURNING: Final = frozenset({"started", "resumed", "healed"})
"""Actions after which it is heard again."""
RETURNING_S: Final = 30.0
"""How long a node that came back may still be expelled for its silence: longer than a session of either profile."""


def unasked(happened: Iterable[Event]) -> list[Event]:
    """Return each expulsion that nothing done to a node explains: the machine gave the broker no time.

    Fencing counts, and an ISR that loses a broker. A broker that was stopped, killed, paused or cut off is excused
    until some time after it came back, and every broker while the controller was.
    """
    excused: dict[int, float] = {}  # until when, by node
    fenced: set[int] = set()
    isrs: dict[tuple[str | None, int | None], frozenset[int]] = {}
    found = []
    for event in happened:
        node, over = event.node, event.at + RETURNING_S
        if event.what in EXPELLING:
            excused[node] = math.inf
        elif event.what in RETURNING and node not in fenced:
            excused[node] = over
        elif event.what == "unfenced":
            fenced.discard(node)
            excused[node] = min(excused.get(node, 0.0), over)
        now = {one for one, until in excused.items() if until >= event.at}
        if event.what == "fenced":
            fenced.add(node)
            if not {node, CONTROLLER} & now:
                found.append(event)
        elif event.isr is not None:
            place = (event.topic, event.partition)
            if CONTROLLER not in now and isrs.get(place, event.isr) - event.isr - now:
                found.append(event)
            isrs[place] = event.isr
    return found


def leaderless(happened: Iterable[Event], topic: str | None, partition: int | None) -> bool:
    """Tell whether every in-sync replica of a partition was silent at the same time, so that nothing could lead it.

    A broker that comes back counts as in sync again when the partition's leader says so.
    """
    happened = list(happened)
    isr = {event.node for event in happened} - {CONTROLLER}
    silent: set[int] = set()
    for event in happened:
        if event.what in EXPELLING or event.what == "fenced":
            silent.add(event.node)
        elif event.what in {*RETURNING, "unfenced"}:
            silent.discard(event.node)
        elif event.isr and (event.topic, event.partition) == (topic, partition):
            isr = set(event.isr)
        if isr <= silent:
            return True
        if event.what in {"stopped", "killed", "fenced"}:
            isr.discard(event.node)
    return False

"""Long soaks that may be broken off: where each stands is written down, and the next run goes on from there.

Set CANARY_SOAK to a directory for that; without it a soak begins at its beginning.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable

_STEP = 20
"""Lives between two notes."""


def soak(name: str, goal: int, live: Callable[[int], int]) -> None:
    """Call ``live`` with one seed after the other, until the sum of what it returned has come to ``goal``."""
    directory = os.environ.get("CANARY_SOAK")
    note = Path(directory) / f"{name.replace(' ', '-')}.json" if directory else None
    seed = reached = 0
    if note is not None and note.exists():
        known = orjson.loads(note.read_bytes())
        seed, reached = known["seed"], known["reached"]
    while reached < goal:
        reached += live(seed)
        seed += 1
        assert seed < 5 * goal + 100, f"{name}: only {reached} in {seed} lives"
        if note is not None and (seed % _STEP == 0 or reached >= goal):
            note.write_bytes(orjson.dumps({"seed": seed, "reached": reached}))

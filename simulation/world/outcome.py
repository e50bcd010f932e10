"""What came of a life."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from simulation.world.plan import Plan


@dataclass(frozen=True, slots=True)
class Wrong:
    """One thing that went wrong in a life: a verdict of docs/testing.md (MISSED, FALSE, ...), and about what."""

    what: str
    about: str


@dataclass(slots=True)
class Outcome:
    """What came of a life. ``seconds`` are virtual; ``broken`` counts promises that were broken."""

    plan: Plan
    wrong: list[Wrong] = field(default_factory=list)
    seconds: float = 0.0
    promises: int = 0
    broken: int = 0
    steps: int = 0
    story: list[tuple[float, str]] = field(default_factory=list)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(harm, state of the tracker when it struck), and how often."""

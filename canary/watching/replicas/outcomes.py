"""What a pass over a partition's replicas does, step by step, and what it found."""

from dataclasses import dataclass, field
from typing import Final, Literal

from canary.anomalies.replicas.divergence import Divergence

MOST_FOUND: Final = 1000
"""Divergences of one pass over a partition; further ones are counted."""

Reason = Literal["no-leader", "not-in-sync", "refused", "unanswered", "tiered", "moved", "unexplained", "unreadable"]
"""Why something could not be compared."""


@dataclass(slots=True)
class Outcome:
    """What a pass over a partition found.

    Attributes:
        start: the first offset that was compared.
        compared_to: the first one that was not.
        offsets: how many were compared: less than from ``start`` to ``compared_to`` if logs began later meanwhile.
        bytes: read, from all replicas together.
        divergences: ascending; ``left_out`` counts those beyond MOST_FOUND.
        unknown: why something could not be compared, and of which broker (None: of all), in words.
        alone: there is one replica, and nothing to compare it with.
    """

    topic: str
    partition: int
    start: int = 0
    compared_to: int = 0
    offsets: int = 0
    bytes: int = 0
    divergences: list[Divergence] = field(default_factory=list)
    left_out: int = 0
    unknown: dict[tuple[Reason, int | None], str] = field(default_factory=dict)
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """A step that was done: it read ``bytes``, and wants ``pause_s`` before the next; ``found`` is new."""

    bytes: int = 0
    pause_s: float = 0.0
    found: tuple[Divergence, ...] = ()

"""Drills that forge probes: an ordinary producer writes bytes that no sound cluster would hold."""

from typing import Final

from canary.drills.drill import Control
from canary.drills.steps.waiting import UntilAcked
from canary.drills.steps.writing import Forge

SOMEBODY_ELSES: Final = Control(
    why="A record that does not bear the canary's mark is somebody else's: counted, and silent.",
    steps=(UntilAcked(), Forge("foreign"), UntilAcked()),
    may_say=frozenset(),
)
"""The control of forgeries that a mode without transactions finds."""

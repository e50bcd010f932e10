"""When what failed may be tried again: each time in a row after twice the pause."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_S = 1.0
LONGEST_S = 60.0
STEADY_S = 60.0
"""What ran for so long after its start is not failing in a row."""


@dataclass(frozen=True, slots=True)
class _Failed:
    due: float
    pause: float


class Pauses:
    """Remembers, by name, what failed and when it may be started again.

    Args:
        now: a monotonic clock, in s.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._failed: dict[str, _Failed] = {}

    def may_start(self, what: str) -> bool:
        """Say whether what has ended may be started now; a True counts as that start."""
        now = self._now()
        last = self._failed.get(what)
        if last is None or now - last.due > STEADY_S:
            last = _Failed(now, 0.0)
        if now < last.due:
            return False
        pause = min(max(last.pause * 2, FIRST_S), LONGEST_S)
        self._failed[what] = _Failed(now + pause, pause)
        return True

    def failing(self) -> list[str]:
        """Return what was started again at least twice in a row, and has not run for long since."""
        now = self._now()
        return [
            what for what, last in list(self._failed.items()) if last.pause > FIRST_S and now - last.due <= STEADY_S
        ]

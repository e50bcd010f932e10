"""The pause before something that failed starts again: one rule for threads and for producers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_S: Final = 1.0
LONGEST_S: Final = 60.0
STEADY_S: Final = 60.0
"""What has run for so long after its start is not failing in a row."""


class Pauses:
    """The first start is without a pause; each one in a row after it waits twice as long, up to LONGEST_S.

    >>> seconds = iter([0.0, 0.0, 0.0])
    >>> pauses = Pauses(lambda: next(seconds))
    >>> pauses.start()
    >>> pauses.left_s
    1.0
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Begin without a start; ``monotonic`` returns seconds."""
        self._monotonic = monotonic
        self._due = monotonic()
        self._pause_s = 0.0

    @property
    def left_s(self) -> float:
        """Seconds until the next start may be, 0 if it may be now."""
        return max(self._due - self._monotonic(), 0.0)

    def start(self) -> None:
        """Note a start; it makes the next one wait."""
        now = self._monotonic()
        pause_s = 0.0 if now - self._due > STEADY_S else self._pause_s
        self._pause_s = min(max(pause_s * 2, FIRST_S), LONGEST_S)
        self._due = now + self._pause_s

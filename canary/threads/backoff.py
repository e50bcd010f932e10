"""The pause before something that failed starts again: one rule for threads and for producers."""

from collections.abc import Callable
from typing import Final

from canary.threads import system

FIRST_S: Final = 1.0
LONGEST_S: Final = 60.0
STEADY_S: Final = 60.0
"""What has run for so long after its start is not failing in a row."""


class Pause:
    """The first start is without a pause; each one in a row after it waits twice as long, up to LONGEST_S.

    What has run for more than ``steady_s`` after its start, and its pause, does not fail in a row.

    >>> seconds = iter([0.0, 0.0, 0.0])
    >>> pause = Pause(lambda: next(seconds))
    >>> pause.start()
    >>> pause.left_s
    1.0
    """

    def __init__(self, now: Callable[[], float] = system.monotonic, steady_s: float = STEADY_S) -> None:
        """Begin without a start; ``now`` is a monotonic clock, in s."""
        self._now = now
        self._steady_s = steady_s
        self._due = now()
        self._pause_s = 0.0

    @property
    def left_s(self) -> float:
        """Seconds until the next start may be, 0 if it may be now."""
        return max(self._due - self._now(), 0.0)

    @property
    def failing(self) -> bool:
        """Whether it was started at least twice in a row, and has not run for long since."""
        return self._pause_s > FIRST_S and self._now() - self._due <= self._steady_s

    def start(self) -> None:
        """Note a start; it makes the next one wait."""
        now = self._now()
        pause_s = 0.0 if now - self._due > self._steady_s else self._pause_s
        self._pause_s = min(max(pause_s * 2, FIRST_S), LONGEST_S)
        self._due = now + self._pause_s


class Pauses:
    """The pauses of several things, by name."""

    def __init__(self, now: Callable[[], float] = system.monotonic) -> None:
        """Begin with none; ``now`` is a monotonic clock, in s."""
        self._now = now
        self._of: dict[str, Pause] = {}

    def may_start(self, what: str) -> bool:
        """Say whether what has ended may be started now; a True counts as that start."""
        pause = self._of.setdefault(what, Pause(self._now))
        if pause.left_s:
            return False
        pause.start()
        return True

    def failing(self) -> list[str]:
        """Return what was started again at least twice in a row, and has not run for long since."""
        return [what for what, pause in list(self._of.items()) if pause.failing]

"""When runners were last heard of, by this process's own clock: a runner's may be ahead of it, or behind."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple


class Heard(NamedTuple):
    """A heartbeat is at least ``least_s`` and at most ``most_s`` seconds old, as far as this process has looked."""

    least_s: float = 0.0
    most_s: float = float("inf")


@dataclass(slots=True)
class Heartbeats:
    """Remembers the heartbeat of each runner, and when it was read first."""

    _known: dict[Hashable, tuple[int | None, float, float, float]] = field(default_factory=dict)
    """By runner: the heartbeat, when it was read first, how long after another one, and when it was read last."""
    _lock: Lock = field(default_factory=Lock)

    def heard(self, runner: Hashable, told_ns: int, now_s: float) -> Heard:
        """Note what the store holds of a runner at ``now_s`` (monotonic), and return how old that is.

        One that is older than the one before (the store was put back, say) may be of any time.
        """
        with self._lock:
            before_ns, since_s, gap_s, looked_s = self._known.get(runner, (None, 0.0, 0.0, 0.0))
            if before_ns != told_ns:
                goes_on = before_ns is not None and told_ns > before_ns
                since_s, gap_s = now_s, now_s - looked_s if goes_on else float("inf")
            self._known[runner] = told_ns, since_s, gap_s, now_s
        return Heard(now_s - since_s, now_s - since_s + gap_s)

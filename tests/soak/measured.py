"""What processes hold while they live: memory, file descriptors, threads."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EVERY_S: Final = 5.0
_WINDOW: Final = 0.1
"""Of the whole time: what is held is the median over so much of it, at the beginning of what counts and at the end."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds at a moment (s since the beginning)."""

    at_s: float
    pid: int
    memory: int
    descriptors: int
    threads: int


def held(pid: int, at_s: float) -> Held | None:
    """Return what a process holds now; None if it is gone."""
    proc = Path(f"/proc/{pid}")
    try:
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        descriptors = len(list((proc / "fd").iterdir()))
        return Held(at_s, pid, 1024 * int(status["VmRSS"].split()[0]), descriptors, int(status["Threads"]))
    except (OSError, KeyError):
        return None


class Meter(threading.Thread):
    """Looks at processes every five seconds, and writes down what they hold."""

    def __init__(self, pids: Callable[[], Mapping[str, int]], file: Path) -> None:
        super().__init__(name="meter", daemon=True)
        self.found: dict[str, list[Held]] = {}
        self._pids = pids
        self._file = file
        self._began = time.monotonic()
        self._ended = threading.Event()

    def run(self) -> None:
        """Look until ended."""
        with self._file.open("w") as file:
            file.write("at_s,part,pid,memory,descriptors,threads\n")
            while not self._ended.wait(EVERY_S):
                for part, pid in self._pids().items():
                    if one := held(pid, time.monotonic() - self._began):
                        self.found.setdefault(part, []).append(one)
                        file.write(f"{one.at_s:.0f},{part},{pid},{one.memory},{one.descriptors},{one.threads}\n")
                file.flush()

    def end(self) -> None:
        """End it."""
        self._ended.set()
        self.join()


@dataclass(frozen=True, slots=True)
class Growth:
    """What a part held when it had settled, and in the end; medians over a tenth of the time."""

    part: str
    memory: tuple[float, float]
    descriptors: tuple[float, float]
    threads: tuple[float, float]

    @property
    def memory_ratio(self) -> float:
        """How much more it is in the end."""
        return self.memory[1] / self.memory[0] - 1

    def __str__(self) -> str:
        """Say it in a line."""
        before, after = (round(one / 2**20) for one in self.memory)
        return (
            f"{self.part}: memory {before} -> {after} MiB ({100 * self.memory_ratio:+.1f} %), "
            f"descriptors {self.descriptors[0]:g} -> {self.descriptors[1]:g}, "
            f"threads {self.threads[0]:g} -> {self.threads[1]:g}"
        )


def growth(part: str, found: list[Held], settled_s: float, end_s: float) -> Growth | None:
    """Return how much the last process of a part grew from the time when it had settled; None: it did not live then."""
    mine = [one for one in found if one.pid == found[-1].pid]
    window_s = _WINDOW * end_s
    before = [one for one in mine if settled_s <= one.at_s <= settled_s + window_s]
    after = [one for one in mine if one.at_s >= end_s - window_s]
    if not before or not after:
        return None

    def both(what: Callable[[Held], int]) -> tuple[float, float]:
        return statistics.median(map(what, before)), statistics.median(map(what, after))

    return Growth(part, both(lambda o: o.memory), both(lambda o: o.descriptors), both(lambda o: o.threads))

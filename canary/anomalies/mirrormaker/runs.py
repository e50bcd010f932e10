"""Probes of one partition that wait for something, as runs: memory grows with breaks and minutes, not with probes."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, Self

from canary.anomalies.violation import Records, following
from canary.probe.identity import Identity

_SPAN_NS: Final = 10 * 10**9
"""The time that one run covers at most; within it the times of its probes are taken to be even."""


class Run(NamedTuple):
    """``size`` probes at consecutive offsets, of consecutive sequences from ``identity``; sent from first to last."""

    offset: int
    size: int
    identity: Identity
    first_ns: int
    last_ns: int
    whole: bool

    @property
    def end(self) -> int:
        """The last offset plus one."""
        return self.offset + self.size

    @property
    def records(self) -> Records:
        """The same for a violation."""
        return Records(self.offset, self.size, self.identity)

    def place(self, identity: Identity) -> int | None:
        """Return which of these probes has the identity, from 0; None: none."""
        at = identity.sequence - self.identity.sequence
        return at if 0 <= at < self.size and identity[:3] == self.identity[:3] else None

    def part(self, skip: int, size: int) -> Self:
        """Return ``size`` of them, without the first ``skip``; there are so many."""
        identity = following(self.identity, skip)
        assert identity is not None  # noqa: S101  # for the type alone
        return self._replace(
            offset=self.offset + skip,
            size=size,
            identity=identity,
            first_ns=self._sent_ns(skip),
            last_ns=self._sent_ns(skip + size - 1),
        )

    def _sent_ns(self, at: int) -> int:
        return self.first_ns + (self.last_ns - self.first_ns) * at // max(self.size - 1, 1)

    def with_next(self, other: Self) -> Self | None:
        """Return both as one if the other goes on where this one ends."""
        goes_on = (other.offset, other.identity, other.whole) == (
            self.end,
            following(self.identity, self.size),
            self.whole,
        )
        if not goes_on or not 0 <= other.last_ns - self.first_ns <= _SPAN_NS:
            return None
        return self._replace(size=self.size + other.size, last_ns=other.last_ns)


class Runs:
    """Runs in the order of their offsets."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._streams: Counter[tuple[int, ...]] = Counter()
        self.probes = 0

    def __iter__(self) -> Iterator[Run]:
        """Return an iterator over the runs."""
        return iter(self._runs)

    def __len__(self) -> int:
        """Return how many runs there are."""
        return len(self._runs)

    def append(self, run: Run) -> None:
        """Add what lies behind all that is there."""
        self.probes += run.size
        joined = self._runs[-1].with_next(run) if self._runs else None
        if joined is not None:
            self._runs[-1] = joined
            return
        self._runs.append(run)
        self._streams[run.identity[:3]] += 1

    def find(self, identity: Identity) -> int | None:
        """Return the offset of a probe; None: it is not there."""
        found = self._find(identity)
        return None if found is None else self._runs[found[0]].offset + found[1]

    def _find(self, identity: Identity) -> tuple[int, int] | None:
        if self._streams[identity[:3]]:
            for number, run in enumerate(self._runs):
                at = run.place(identity)
                if at is not None:
                    return number, at
        return None

    def take(self, identity: Identity) -> Run | None:
        """Take a probe out, and return it as a run of one."""
        found = self._find(identity)
        if found is None:
            return None
        number, at = found
        run = self._runs[number]
        rest = [run.part(0, at)] if at else []
        if at + 1 < run.size:
            rest.append(run.part(at + 1, run.size - at - 1))
        self._replace(number, number + 1, rest)
        return run.part(at, 1)

    def take_below(self, offset: int) -> list[Run]:
        """Take out every probe below an offset, and return them."""
        number = 0
        while number < len(self._runs) and self._runs[number].end <= offset:
            number += 1
        taken = self._runs[:number]
        rest = []
        if number < len(self._runs) and self._runs[number].offset < offset:
            run = self._runs[number]
            below = offset - run.offset
            taken.append(run.part(0, below))
            rest.append(run.part(below, run.size - below))
            number += 1
        self._replace(0, number, rest)
        return taken

    def take_first(self, runs: int) -> list[Run]:
        """Take out so many runs, the first ones."""
        taken = self._runs[:runs]
        self._replace(0, len(taken), [])
        return taken

    def _replace(self, start: int, end: int, rest: list[Run]) -> None:
        for run in self._runs[start:end]:
            self._streams[run.identity[:3]] -= 1
            if not self._streams[run.identity[:3]]:
                del self._streams[run.identity[:3]]
            self.probes -= run.size
        for run in rest:
            self._streams[run.identity[:3]] += 1
            self.probes += run.size
        self._runs[start:end] = rest

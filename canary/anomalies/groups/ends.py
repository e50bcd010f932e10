"""When the end of a log passed an offset: a few samples of (time, end), bounded for ever."""

from typing import Final, NamedTuple

KEPT: Final = 64
"""Samples of one partition: those of the last minutes are near each other, older ones ever farther apart."""


class Age(NamedTuple):
    """How long (s) a record has been there; ``at_least``: it is older than what is known, by nobody knows how much."""

    seconds: float
    at_least: bool


class Ends:
    """The samples of one partition, oldest first. Between two of them the log grows evenly, as far as we know."""

    __slots__ = ("_at", "_end")

    def __init__(self) -> None:
        self._at: list[int] = []
        self._end: list[int] = []

    def __len__(self) -> int:
        """Return how many samples are kept."""
        return len(self._at)

    def add(self, at_ns: int, end: int) -> None:
        """Take a sample. An end that went back is another log, or one that was cut: what was known is void."""
        if self._end and end < self._end[-1]:
            self._at.clear()
            self._end.clear()
        if self._end[-2:] == [end, end]:  # nothing was written: when that was last so is enough
            self._at[-1] = at_ns
            return
        self._at.append(at_ns)
        self._end.append(end)
        if len(self._at) > KEPT:
            old = slice(1, KEPT // 2, 2)
            del self._at[old]
            del self._end[old]

    def age(self, offset: int, now_ns: int) -> Age | None:
        """Return for how long the record at ``offset`` has been in the log; None if there is no such record yet.

        >>> ends = Ends()
        >>> for second in range(4):
        ...     ends.add(second * 10**9, 10 * second)
        >>> ends.age(25, 4 * 10**9), ends.age(30, 4 * 10**9), Ends().age(0, 0)
        (Age(seconds=1.5, at_least=False), None, None)
        >>> ends.add(5 * 10**9, 40)
        >>> ends.age(0, 5 * 10**9)
        Age(seconds=5.0, at_least=False)
        """
        if not self._end or offset >= self._end[-1]:
            return None
        if offset < self._end[0]:
            return Age((now_ns - self._at[0]) / 1e9, at_least=True)
        after = next(i for i, end in enumerate(self._end) if end > offset)
        began, until = self._at[after - 1], self._at[after]
        part = (offset - self._end[after - 1]) / (self._end[after] - self._end[after - 1])
        return Age((now_ns - began - part * (until - began)) / 1e9, at_least=False)

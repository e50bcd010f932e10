"""Sets of integers as sorted, disjoint, half-open intervals: their size grows with holes, not with members."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self


@dataclass(slots=True)
class IntervalSet:
    """A set of integers. ``starts[i] <= x < ends[i]``; intervals neither touch nor overlap; ``total`` is the size."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    total: int = 0

    @classmethod
    def of(cls, intervals: Iterable[tuple[int, int]]) -> Self:
        """Return the set of all members of ``intervals``."""
        found = cls()
        for a, b in intervals:
            found.add(a, b)
        return found

    def __contains__(self, x: int) -> bool:
        """Say whether ``x`` is a member."""
        i = bisect_right(self.starts, x) - 1
        return i >= 0 and x < self.ends[i]

    def __bool__(self) -> bool:
        """Say whether there is any member."""
        return bool(self.starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the intervals, ascending."""
        return zip(self.starts, self.ends, strict=True)

    def first(self) -> int | None:
        """Return the smallest member."""
        return self.starts[0] if self.starts else None

    def end(self) -> int | None:
        """Return the greatest member plus one."""
        return self.ends[-1] if self.ends else None

    def add(self, a: int, b: int) -> None:
        """Add [a, b)."""
        if b <= a:
            return
        starts, ends = self.starts, self.ends
        if not ends or a > ends[-1]:  # the usual case: something new at the end
            starts.append(a)
            ends.append(b)
            self.total += b - a
            return
        if a >= starts[-1]:  # within the last interval, or going on where it ends
            if b > ends[-1]:
                self.total += b - ends[-1]
                ends[-1] = b
            return
        i = bisect_right(starts, a) - 1
        if i >= 0 and b <= ends[i]:  # nothing new
            return
        i = bisect_left(ends, a)  # first interval that touches or follows
        j = bisect_right(starts, b)  # first interval that neither touches nor precedes
        if i < j:
            self.total -= sum(ends[k] - starts[k] for k in range(i, j))
            a, b = min(a, starts[i]), max(b, ends[j - 1])
        starts[i:j] = [a]
        ends[i:j] = [b]
        self.total += b - a

    def remove(self, a: int, b: int) -> None:
        """Remove [a, b)."""
        starts, ends = self.starts, self.ends
        if b <= a or not starts or a >= ends[-1] or b <= starts[0]:
            return
        if a <= starts[0] and b <= ends[0]:  # the usual case: the oldest go first
            self.total -= b - starts[0]
            if b < ends[0]:
                starts[0] = b
            else:
                del starts[0], ends[0]
            return
        i = bisect_right(ends, a)  # first interval that reaches beyond a
        j = bisect_left(starts, b)  # first interval that begins at or after b
        if i >= j:
            return
        kept = [(x, y) for x, y in ((starts[i], a), (b, ends[j - 1])) if x < y]
        self.total += sum(y - x for x, y in kept) - sum(ends[k] - starts[k] for k in range(i, j))
        starts[i:j] = [x for x, _ in kept]
        ends[i:j] = [y for _, y in kept]

    def within(self, a: int, b: int) -> list[tuple[int, int]]:
        """Return the intervals of the members in [a, b)."""
        starts, ends = self.starts, self.ends
        if not ends or a >= ends[-1]:
            return []
        i, j = bisect_right(ends, a), bisect_left(starts, b)
        return [(max(a, x), min(b, y)) for x, y in zip(starts[i:j], ends[i:j], strict=True)]

    def without(self, a: int, b: int) -> list[tuple[int, int]]:
        """Return the intervals of [a, b) that are not members."""
        if b <= a:
            return []
        starts, ends = self.starts, self.ends
        if not ends or a >= ends[-1]:  # the usual case: none of them is
            return [(a, b)]
        gaps = []
        i, j = bisect_right(ends, a), bisect_left(starts, b)
        for x, y in zip(starts[i:j], ends[i:j], strict=True):
            if a < x:
                gaps.append((a, x))
            a = y
        if a < b:
            gaps.append((a, b))
        return gaps

    def overlaps(self, a: int, b: int) -> bool:
        """Say whether any member is in [a, b)."""
        if not self.ends or a >= self.ends[-1]:
            return False
        i = bisect_right(self.ends, a)
        return self.starts[i] < b

    def covers(self, a: int, b: int) -> bool:
        """Say whether all of [a, b) are members."""
        i = bisect_right(self.starts, a) - 1
        return b <= a or (i >= 0 and b <= self.ends[i])

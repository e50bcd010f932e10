"""Sets of integers as sorted, disjoint, half-open intervals: their size grows with irregular holes, not members."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Self

from canary.anomalies.online.sets import rows

_WIDTH = 2


@dataclass(slots=True, eq=False)
class IntervalSet:  # noqa: PLW1641  # it changes, so it has no hash
    """A set of integers. ``starts[i] <= x < ends[i]``; intervals neither touch nor overlap; ``total`` is the size.

    Where there are many, the lower ones are in ``past``, by the pattern that repeats in them (canary.anomalies.online.
    sets.rows); all of those lie below the first of ``starts``, of which there is one then.
    """

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    total: int = 0
    past: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, intervals: Iterable[tuple[int, int]]) -> Self:
        """Return the set of all members of ``intervals``."""
        found = cls()
        for a, b in intervals:
            found.add(a, b)
        return found

    def __eq__(self, other: object) -> bool:
        """Say whether both have the same members."""
        return isinstance(other, IntervalSet) and self.total == other.total and list(self) == list(other)

    def __contains__(self, x: int) -> bool:
        """Say whether ``x`` is a member."""
        return self.covers(x, x + 1)

    def __bool__(self) -> bool:
        """Say whether there is any member."""
        return bool(self.starts)

    def __len__(self) -> int:
        """Return the number of intervals."""
        return sum(one[0] for one in self.past) + len(self.starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the intervals, ascending."""
        latest = zip(self.starts, self.ends, strict=True)
        return chain(((a, b) for a, b in rows.every(self.past, _WIDTH)), latest) if self.past else latest

    def first(self) -> int | None:
        """Return the smallest member."""
        if self.past:
            return rows.row(self.past[0], 0, _WIDTH)[0]
        return self.starts[0] if self.starts else None

    def end(self) -> int | None:
        """Return the greatest member plus one."""
        return self.ends[-1] if self.ends else None

    def below(self, x: int) -> int | None:
        """Return the greatest member below ``x`` plus one."""
        i = bisect_left(self.starts, x) - 1
        if i >= 0:
            return min(self.ends[i], x)
        j, i = rows.at(self.past, x - 1, _WIDTH) if self.past else (-1, -1)
        return None if j < 0 else min(rows.row(self.past[j], i, _WIDTH)[1], x)

    def add(self, a: int, b: int) -> None:
        """Add [a, b)."""
        if b <= a:
            return
        starts, ends = self.starts, self.ends
        if not ends or a > ends[-1]:  # the usual case: something new at the end
            starts.append(a)
            ends.append(b)
            self.total += b - a
            if len(starts) >= rows.SOME and not len(starts) % rows.LATEST:
                self._let_go()
            return
        if a >= starts[-1]:  # within the last interval, or going on where it ends
            if b > ends[-1]:
                self.total += b - ends[-1]
                ends[-1] = b
            return
        if self.past and a < starts[0]:
            joined = self._joined(a, b)
            if joined is None:
                return
            a, b = joined
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

    def _joined(self, a: int, b: int) -> tuple[int, int] | None:
        """Add [a, b) to the past ones, None; or return it, with those that it touches, if it belongs to the latest."""
        touched = list(rows.within(self.past, a - 1, b + 1, _WIDTH))
        if touched:
            if touched[0][0] <= a and b <= touched[0][1]:
                return None
            a, b = min(a, touched[0][0]), max(b, touched[-1][1])
            self.total -= sum(y - x for x, y in touched)
        stays = b < self.starts[0] and a < rows.last(self.past, _WIDTH)[1]
        if touched or stays:
            rows.replace(self.past, a, b, [(a, b)] if stays else [], _WIDTH)
        self.total += b - a if stays else 0
        return None if stays else (a, b)

    def _let_go(self) -> None:
        """Put all but the latest into the past, as far as their pattern is known."""
        if len(self.starts) < rows.MANY and not rows.goes_on(self.past, (self.starts[0], self.ends[0])):
            return
        ready = list(zip(self.starts[: -rows.LATEST], self.ends[: -rows.LATEST], strict=True))
        n = rows.append(self.past, ready, _WIDTH)
        del self.starts[:n], self.ends[:n]

    def _take_back(self) -> None:
        """Keep one of ``starts`` above the past ones."""
        if self.past and not self.starts:
            latest = rows.take_back(self.past, _WIDTH)
            self.starts[:], self.ends[:] = [one[0] for one in latest], [one[1] for one in latest]

    def remove(self, a: int, b: int) -> None:
        """Remove [a, b)."""
        starts, ends = self.starts, self.ends
        if b <= a or not starts or a >= ends[-1]:
            return
        if self.past and a < starts[0]:
            gone = list(rows.within(self.past, a, b, _WIDTH))
            if gone:
                kept = [(x, y) for x, y in ((gone[0][0], a), (b, gone[-1][1])) if x < y]
                rows.replace(self.past, a, b, kept, _WIDTH)
                self.total += sum(y - x for x, y in kept) - sum(y - x for x, y in gone)
        if b <= starts[0]:
            return
        if a <= starts[0] and b <= ends[0]:  # the usual case: the oldest go first
            self.total -= b - starts[0]
            if b < ends[0]:
                starts[0] = b
            else:
                del starts[0], ends[0]
                self._take_back()
            return
        i = bisect_right(ends, a)  # first interval that reaches beyond a
        j = bisect_left(starts, b)  # first interval that begins at or after b
        if i >= j:
            return
        kept = [(x, y) for x, y in ((starts[i], a), (b, ends[j - 1])) if x < y]
        self.total += sum(y - x for x, y in kept) - sum(ends[k] - starts[k] for k in range(i, j))
        starts[i:j] = [x for x, _ in kept]
        ends[i:j] = [y for _, y in kept]
        self._take_back()

    def within(self, a: int, b: int) -> list[tuple[int, int]]:
        """Return the intervals of the members in [a, b)."""
        starts, ends = self.starts, self.ends
        if not ends or a >= ends[-1] or b <= a:
            return []
        i, j = bisect_right(ends, a), bisect_left(starts, b)
        found = [(max(a, x), min(b, y)) for x, y in zip(starts[i:j], ends[i:j], strict=True)]
        if self.past and a < starts[0]:
            return [*((max(a, x), min(b, y)) for x, y in rows.within(self.past, a, b, _WIDTH)), *found]
        return found

    def without(self, a: int, b: int) -> list[tuple[int, int]]:
        """Return the intervals of [a, b) that are not members."""
        if b <= a:
            return []
        if not self.ends or a >= self.ends[-1]:  # the usual case: none of them is
            return [(a, b)]
        gaps = []
        for x, y in self.within(a, b):
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
        if self.starts[i] < b:
            return True
        return bool(self.past) and any(True for _ in rows.within(self.past, a, b, _WIDTH))

    def covers(self, a: int, b: int) -> bool:
        """Say whether all of [a, b) are members."""
        i = bisect_right(self.starts, a) - 1
        if i >= 0 or b <= a or not self.past:
            return b <= a or (i >= 0 and b <= self.ends[i])
        j, i = rows.at(self.past, a, _WIDTH)
        return j >= 0 and b <= rows.row(self.past[j], i, _WIDTH)[1]

"""Maps of integers to integers as runs of consecutive pairs: their size grows with irregular breaks, not members."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from canary.anomalies.online.sets import rows

_WIDTH = 4


class Run(NamedTuple):
    """``key + i`` maps to ``value + i`` for 0 <= i < length, all of them with ``tag``."""

    key: int
    length: int
    value: int
    tag: int

    @property
    def end(self) -> int:
        """The last key plus one."""
        return self.key + self.length

    @property
    def row(self) -> rows.Row:
        """The same as a row: key, end, value, tag."""
        return self.key, self.end, self.value, self.tag

    @classmethod
    def of(cls, row: rows.Row) -> Self:
        """Return the run of a row."""
        return cls(row[0], row[1] - row[0], row[2], row[3])

    def part(self, a: int, b: int) -> Self:
        """Return the keys of it that are in [a, b), of which there is one."""
        skip = max(a - self.key, 0)
        return type(self)(self.key + skip, min(self.end, b) - self.key - skip, self.value + skip, self.tag)

    def with_next(self, other: Self) -> Self | None:
        """Return both as one run if the other continues this one."""
        after = (self.end, self.value + self.length, self.tag)
        return self._replace(length=self.length + other.length) if after == (other.key, *other[2:]) else None


@dataclass(slots=True)
class RunMap:
    """key -> (value, tag), run-length coded. Idempotent producers write runs: a day's probes are a few.

    Where there are many runs, the lower ones are in ``past``, by the pattern that repeats in them (canary.anomalies.
    online.sets.rows); all of those lie below the first of ``keys``, of which there is one then.
    """

    keys: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    tags: list[int] = field(default_factory=list)
    past: list[list[int]] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of runs."""
        return sum(one[0] for one in self.past) + len(self.keys)

    def __bool__(self) -> bool:
        """Say whether there is any."""
        return bool(self.keys)

    def __iter__(self) -> Iterator[Run]:
        """Yield the runs, ascending."""
        yield from map(Run.of, rows.every(self.past, _WIDTH))
        yield from map(Run, self.keys, self.counts, self.values, self.tags)

    def first(self) -> int | None:
        """Return the smallest key."""
        return next((run.key for run in self), None)

    def all_tags(self) -> set[int]:
        """Return the tags that there are."""
        steady = all(not one[5] for one in self.past)
        past = (x for one in self.past for x in one[9::_WIDTH]) if steady else (run.tag for run in self)
        return {*past, *self.tags}

    def get(self, key: int) -> tuple[int, int] | None:
        """Return (value, tag) of ``key``."""
        i = bisect_right(self.keys, key) - 1
        if i < 0 and self.past:
            run = self._past_at(key)
            return None if run is None or key >= run.end else (run.value + key - run.key, run.tag)
        if i < 0 or key - self.keys[i] >= self.counts[i]:
            return None
        return self.values[i] + key - self.keys[i], self.tags[i]

    def _past_at(self, key: int) -> Run | None:
        """Return the last one of the past ones that begins at or below ``key``."""
        j, i = rows.at(self.past, key, _WIDTH)
        return None if j < 0 else Run.of(rows.row(self.past[j], i, _WIDTH))

    def matches(self, key: int, count: int, value: int, tag: int) -> bool:
        """Say whether key+i maps to (value+i, tag) for all 0 <= i < count, in one run."""
        keys = self.keys
        if not keys or key >= keys[-1] + self.counts[-1]:  # the usual case: something new
            return False
        i = bisect_right(keys, key) - 1
        if i < 0:
            run = self._past_at(key) if self.past else None
            return run is not None and key + count <= run.end and run.value + key - run.key == value and run.tag == tag
        skip = key - keys[i]
        return skip + count <= self.counts[i] and self.values[i] + skip == value and self.tags[i] == tag

    def touches(self, a: int, b: int) -> bool:
        """Say whether any key is in [a, b)."""
        if not self.keys or a >= self.keys[-1] + self.counts[-1]:
            return False
        i = bisect_right(self.keys, a) - 1
        if i >= 0 and a < self.keys[i] + self.counts[i]:
            return True
        if i < 0 and self.past and any(True for _ in rows.within(self.past, a, b, _WIDTH)):
            return True
        return i + 1 < len(self.keys) and self.keys[i + 1] < b

    def end(self) -> int:
        """Return the greatest key plus one, 0 when there is none."""
        return self.keys[-1] + self.counts[-1] if self.keys else 0

    def set(self, key: int, count: int, value: int, tag: int) -> None:
        """Map key+i to (value+i, tag) for 0 <= i < count, whatever stood there before."""
        if count <= 0:
            return
        keys = self.keys
        if keys:
            last = keys[-1] + self.counts[-1]
            if key == last and self.tags[-1] == tag and self.values[-1] + self.counts[-1] == value:
                self.counts[-1] += count
                return
            if key < last:
                self.remove(key, key + count)
            else:  # the usual case: something new at the end
                self._insert(len(keys), Run(key, count, value, tag))
                if len(keys) >= rows.SOME and not len(keys) % rows.LATEST:
                    self._let_go()
                return
        run = Run(key, count, value, tag)
        if self.past and key < keys[0]:
            joined = self._joined(run)
            if joined is None:
                return
            run = joined
        i = bisect_left(keys, run.key)
        self._insert(i, run)
        self._join(i + 1)
        self._join(i)

    def _joined(self, run: Run) -> Run | None:
        """Add a run to the past ones, None; or return it, with the one before it, if it belongs to the latest."""
        end = rows.last(self.past, _WIDTH)[1]
        before, after = (self._past_at(key) for key in (run.key - 1, run.end))
        joined = None if before is None else before.with_next(run)
        run = joined or run
        if after is not None and after.key == run.end:
            run = run.with_next(after) or run
        stays = run.key < end and run.end < self.keys[0]
        if joined is not None or stays:
            rows.replace(self.past, run.key, run.end, [run.row] if stays else [], _WIDTH)
        return None if stays else run

    def _let_go(self) -> None:
        """Put all but the latest into the past, as far as their pattern is known."""
        if len(self.keys) < rows.MANY and not rows.goes_on(self.past, next(map(Run, *self._columns)).row):
            return
        n = rows.append(self.past, [run.row for run in map(Run, *self._columns)][: -rows.LATEST], _WIDTH)
        self._delete(0, n)

    @property
    def _columns(self) -> tuple[list[int], list[int], list[int], list[int]]:
        return self.keys, self.counts, self.values, self.tags

    def _join(self, i: int) -> None:
        """Merge run i into run i-1 where it continues it."""
        if not 0 < i < len(self.keys):
            return
        n = self.counts[i - 1]
        if (
            self.keys[i - 1] + n == self.keys[i]
            and self.values[i - 1] + n == self.values[i]
            and self.tags[i - 1] == self.tags[i]
        ):
            self.counts[i - 1] += self.counts[i]
            self._delete(i, i + 1)

    def _delete(self, i: int, j: int) -> None:
        del self.keys[i:j], self.counts[i:j], self.values[i:j], self.tags[i:j]

    def remove(self, a: int, b: int) -> None:
        """Forget the keys in [a, b)."""
        if self.past and a < self.keys[0] and a < b:
            gone = [Run.of(row) for row in rows.within(self.past, a, b, _WIDTH)]
            kept = [one.part(*ends).row for one in gone for ends in ((one.key, a), (b, one.end)) if ends[0] < ends[1]]
            if gone:
                rows.replace(self.past, a, b, kept, _WIDTH)
        found = self._overlapping(a, b)
        if not found:
            return
        (i, first), (j, last) = found[0], found[-1]
        self._delete(i, j + 1)
        tail = last.key + last.length - b
        if tail > 0:
            self._insert(i, Run(b, tail, last.value + last.length - tail, last.tag))
        head = a - first.key
        if head > 0:
            self._insert(i, Run(first.key, head, first.value, first.tag))
        if self.past and not self.keys:  # one stays above the past ones
            for row in rows.take_back(self.past, _WIDTH):
                self._insert(len(self.keys), Run.of(row))

    def _insert(self, i: int, run: Run) -> None:
        self.keys.insert(i, run.key)
        self.counts.insert(i, run.length)
        self.values.insert(i, run.value)
        self.tags.insert(i, run.tag)

    def _overlapping(self, a: int, b: int) -> list[tuple[int, Run]]:
        if b <= a:
            return []
        i = max(bisect_right(self.keys, a) - 1, 0)
        found = []
        while i < len(self.keys) and self.keys[i] < b:
            if self.keys[i] + self.counts[i] > a:
                found.append((i, Run(self.keys[i], self.counts[i], self.values[i], self.tags[i])))
            i += 1
        return found

    def within(self, a: int, b: int) -> list[Run]:
        """Return the runs of the keys in [a, b), cut to it."""
        found = [run.part(a, b) for _, run in self._overlapping(a, b)]
        if self.past and a < b and a < self.keys[0]:
            return [*(Run.of(row).part(a, b) for row in rows.within(self.past, a, b, _WIDTH)), *found]
        return found

    def aligned(self, a: int, b: int, shift: int, tag: int) -> list[Run]:
        """Return the runs within [a, b) of ``tag`` whose values are key + ``shift``."""
        return [run for run in self.within(a, b) if run.tag == tag and run.value - run.key == shift]

    def before(self, key: int) -> tuple[int, int] | None:
        """Return (key, value) of the greatest key below ``key``."""
        i = bisect_left(self.keys, key) - 1
        if i < 0:
            run = self._past_at(key - 1) if self.past else None
            return None if run is None else (min(run.end, key) - 1, run.value + min(run.end, key) - 1 - run.key)
        last = min(self.keys[i] + self.counts[i], key) - 1
        return last, self.values[i] + last - self.keys[i]

    def after(self, key: int) -> tuple[int, int] | None:
        """Return (key, value) of the smallest key above ``key``."""
        i = bisect_right(self.keys, key) - 1
        if i < 0 and self.past:
            for row in rows.within(self.past, key + 1, self.keys[0], _WIDTH):
                return max(row[0], key + 1), row[2] + max(key + 1 - row[0], 0)
        if i >= 0 and key + 1 < self.keys[i] + self.counts[i]:
            return key + 1, self.values[i] + key + 1 - self.keys[i]
        if i + 1 < len(self.keys):
            return self.keys[i + 1], self.values[i + 1]
        return None

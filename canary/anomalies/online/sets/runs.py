"""Maps of integers to integers as runs of consecutive pairs: their size grows with breaks, not with members."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple


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


@dataclass(slots=True)
class RunMap:
    """key -> (value, tag), run-length coded. Idempotent producers write runs: a day's probes are a few."""

    keys: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    tags: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.keys)

    def get(self, key: int) -> tuple[int, int] | None:
        """Return (value, tag) of ``key``."""
        i = bisect_right(self.keys, key) - 1
        if i < 0 or key - self.keys[i] >= self.counts[i]:
            return None
        return self.values[i] + key - self.keys[i], self.tags[i]

    def matches(self, key: int, count: int, value: int, tag: int) -> bool:
        """Say whether key+i maps to (value+i, tag) for all 0 <= i < count, in one run."""
        keys = self.keys
        if not keys or key >= keys[-1] + self.counts[-1]:  # the usual case: something new
            return False
        i = bisect_right(keys, key) - 1
        if i < 0:
            return False
        skip = key - keys[i]
        return skip + count <= self.counts[i] and self.values[i] + skip == value and self.tags[i] == tag

    def touches(self, a: int, b: int) -> bool:
        """Say whether any key is in [a, b)."""
        if not self.keys or a >= self.keys[-1] + self.counts[-1]:
            return False
        i = bisect_right(self.keys, a) - 1
        if i >= 0 and a < self.keys[i] + self.counts[i]:
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
                return
        i = bisect_left(keys, key)
        self._insert(i, Run(key, count, value, tag))
        self._join(i + 1)
        self._join(i)

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
        found = []
        for _, run in self._overlapping(a, b):
            skip = max(a - run.key, 0)
            count = min(run.key + run.length, b) - run.key - skip
            found.append(Run(run.key + skip, count, run.value + skip, run.tag))
        return found

    def aligned(self, a: int, b: int, shift: int, tag: int) -> list[Run]:
        """Return the runs within [a, b) of ``tag`` whose values are key + ``shift``."""
        return [run for run in self.within(a, b) if run.tag == tag and run.value - run.key == shift]

    def before(self, key: int) -> tuple[int, int] | None:
        """Return (key, value) of the greatest key below ``key``."""
        i = bisect_left(self.keys, key) - 1
        if i < 0:
            return None
        last = min(self.keys[i] + self.counts[i], key) - 1
        return last, self.values[i] + last - self.keys[i]

    def after(self, key: int) -> tuple[int, int] | None:
        """Return (key, value) of the smallest key above ``key``."""
        i = bisect_right(self.keys, key) - 1
        if i >= 0 and key + 1 < self.keys[i] + self.counts[i]:
            return key + 1, self.values[i] + key + 1 - self.keys[i]
        if i + 1 < len(self.keys):
            return self.keys[i + 1], self.values[i + 1]
        return None

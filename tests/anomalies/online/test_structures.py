"""Runs and intervals against the sets and dictionaries that they stand for."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from canary.anomalies.online import codec
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.sets.runs import RunMap

SMALL = st.integers(0, 30)
STEPS = st.lists(st.tuples(st.booleans(), SMALL, SMALL), max_size=30)
WRITES = st.lists(st.tuples(st.booleans(), SMALL, st.integers(0, 8), SMALL, st.integers(0, 2)), max_size=30)


@given(STEPS, SMALL, SMALL)
def test_an_interval_set_is_a_set(steps: list[tuple[bool, int, int]], a: int, b: int) -> None:
    intervals, plain = IntervalSet(), set[int]()
    for adding, x, y in steps:
        if adding:
            intervals.add(x, y)
            plain |= set(range(x, y))
        else:
            intervals.remove(x, y)
            plain -= set(range(x, y))
    assert {x for s, e in intervals for x in range(s, e)} == plain
    assert intervals.total == len(plain)
    assert intervals.first() == min(plain, default=None)
    assert intervals.end() == (max(plain) + 1 if plain else None)
    assert all(e < s for e, s in zip(intervals.ends, intervals.starts[1:], strict=False))
    wanted = set(range(a, b))
    assert {x for s, e in intervals.within(a, b) for x in range(s, e)} == plain & wanted
    assert {x for s, e in intervals.without(a, b) for x in range(s, e)} == wanted - plain
    assert intervals.overlaps(a, b) == bool(plain & wanted) or b <= a
    assert intervals.covers(a, b) == (wanted <= plain)
    assert (a in intervals) == (a in plain)


@given(WRITES, SMALL, SMALL)
def test_a_run_map_is_a_dictionary(writes: list[tuple[bool, int, int, int, int]], a: int, b: int) -> None:
    runs, plain = RunMap(), dict[int, tuple[int, int]]()
    for setting, key, count, value, tag in writes:
        if setting:
            runs.set(key, count, value, tag)
            plain |= {key + i: (value + i, tag) for i in range(count)}
        else:
            runs.remove(key, key + count)
            plain = {k: v for k, v in plain.items() if not key <= k < key + count}
    assert {k: runs.get(k) for k in range(50) if runs.get(k) is not None} == plain
    inside = {k: v for k, v in plain.items() if a <= k < b}
    found = {r.key + i: (r.value + i, r.tag) for r in runs.within(a, b) for i in range(r.length)}
    assert found == inside
    assert runs.touches(a, b) == bool(inside) or b <= a
    assert runs.end() == max(plain, default=-1) + 1
    below = [k for k in plain if k < a]
    above = [k for k in plain if k > a]
    assert runs.before(a) == ((max(below), plain[max(below)][0]) if below else None)
    assert runs.after(a) == ((min(above), plain[min(above)][0]) if above else None)
    for k, (value, tag) in plain.items():
        assert runs.matches(k, 1, value, tag)
        assert not runs.matches(k, 1, value + 1, tag)


PATTERN = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=5)
LATER = st.lists(st.tuples(st.sampled_from(["add", "remove", "repeat"]), st.integers(0, 3000), st.integers(1, 20)))


@given(PATTERN, st.integers(40, 200), LATER, st.integers(0, 3000), st.integers(1, 60))
def test_what_repeats_is_kept_as_a_pattern_and_loses_nothing(
    pattern: list[tuple[int, int]], times: int, later: list[tuple[str, int, int]], a: int, n: int
) -> None:
    intervals, plain, runs, mapped = IntervalSet(), set[int](), RunMap(), dict[int, tuple[int, int]]()
    end = value = 0

    def repeat(times: int) -> None:
        nonlocal end, value
        for length, gap in pattern * times:
            intervals.add(end, end + length)
            plain.update(range(end, end + length))
            runs.set(end, length, value, 1)
            mapped.update({end + i: (value + i, 1) for i in range(length)})
            end, value = end + length + gap, value + length

    def agree() -> None:
        assert {x for s, e in intervals for x in range(s, e)} == plain
        assert intervals.total == len(plain)
        assert {run.key + i: (run.value + i, run.tag) for run in runs for i in range(run.length)} == mapped
        wanted = set(range(a, a + n))
        assert {x for s, e in intervals.within(a, a + n) for x in range(s, e)} == plain & wanted
        assert {x for s, e in intervals.without(a, a + n) for x in range(s, e)} == wanted - plain
        assert intervals.covers(a, a + n) == (wanted <= plain)
        assert intervals.overlaps(a, a + n) == bool(plain & wanted) == runs.touches(a, a + n)
        assert intervals.first() == runs.first() == min(plain, default=None)
        assert intervals.below(a) == max((x + 1 for x in plain if x < a), default=None)
        assert {x: runs.get(x) for x in wanted} == {x: mapped.get(x) for x in wanted}
        below, above = (max((x for x in mapped if x < a), default=-1), min((x for x in mapped if x > a), default=-1))
        assert runs.before(a) == ((below, mapped[below][0]) if below >= 0 else None)
        assert runs.after(a) == ((above, mapped[above][0]) if above >= 0 else None)

    repeat(times)
    agree()
    assert len(intervals.starts) + sum(one[1] for one in intervals.past) < 250
    for what, x, count in later:
        if what == "add":
            intervals.add(x, x + count)
            plain.update(range(x, x + count))
            runs.set(x, count, x, 2)
            mapped.update({x + i: (x + i, 2) for i in range(count)})
            end, value = max(end, x + count + 1), value + count
        elif what == "remove":
            intervals.remove(x, x + count)
            plain -= set(range(x, x + count))
            runs.remove(x, x + count)
            mapped = {k: v for k, v in mapped.items() if not x <= k < x + count}
        else:
            repeat(count)
    for x in plain ^ set(mapped):
        intervals.remove(x, x + 1)
        plain.discard(x)
        runs.remove(x, x + 1)
        mapped.pop(x, None)
    intervals = codec.loads(IntervalSet, codec.dumps(intervals))
    runs = codec.loads(RunMap, codec.dumps(runs))
    agree()
    assert all(run.with_next(after) is None for run, after in pairwise(runs))

"""Runs and intervals against the sets and dictionaries that they stand for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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

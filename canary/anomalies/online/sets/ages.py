"""Which offset was sent when, from a few entries: a steady rate is one line.

An entry is [ns, offset]: what stands there was sent at ``ns``, and so, within a tenth of the step, was all that stands
above it and below the next entry. Or it is a line, [ns, offset, last, low, high]: what stands at ``x``, from ``offset``
up to ``last`` and below the next entry, was sent at ``ns`` plus (min(x, last) - offset) times any slope between ``low``
and ``high`` (ns for _SCALE offsets), or less than a step after that; [ns, offset, last] is one without a slope. So
nothing is ever taken for younger than it is, nor for older by a step.

Entries rise in both; the latest are points. They were all points once, and such a list is read as it is.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import itemgetter

Ages = list[list[int]]
_POINT, _LINE = 2, 5
"""How many integers each has."""

_SCALE = 1 << 20
_FINE = 10
_POINTS = 48
"""With so many points at the end it is looked for lines in them, but for the last _LATEST."""
_LATEST = 8
_LEAST = 4
"""A line stands for so many points at least."""
_KEPT = 30_000


def _sent(entry: list[int], offset: int) -> int:
    """Return the time of ``offset`` by the entry at or below it."""
    if len(entry) < _LINE:
        return entry[0]
    return entry[0] + (min(offset, entry[2]) - entry[1]) * (entry[3] + entry[4]) // (2 * _SCALE)


def _latest(entry: list[int]) -> int:
    return _sent(entry, entry[-1] if len(entry) < _LINE else entry[2])


def sent_at(ages: Ages, offset: int) -> int | None:
    """Return when (ns) about the record at ``offset``, or the last one below it, was sent; None: not known."""
    i = bisect_right(ages, offset, key=itemgetter(1)) - 1
    return _sent(ages[i], offset) if i >= 0 else None


def first_after(ages: Ages, at_ns: int) -> tuple[int | None, bool]:
    """Return the first offset that is known to be sent later than ``at_ns``, and whether others are known before it."""
    i = bisect_right(ages, at_ns, key=_latest)
    if i == len(ages):
        return None, bool(ages)
    offset = _first_after(ages[i], at_ns)
    return offset, i > 0 or offset > ages[i][1]


def _first_after(entry: list[int], at_ns: int) -> int:
    if len(entry) < _LINE or entry[0] > at_ns:
        return entry[1]
    low, high = entry[1], entry[2]
    while low < high:  # the first one in the line
        middle = (low + high) // 2
        low, high = (low, middle) if _sent(entry, middle) > at_ns else (middle + 1, high)
    return low


def forget_after(ages: Ages, at_ns: int) -> None:
    """Forget what was sent later than ``at_ns``, by a clock that was ahead."""
    while ages and _latest(ages[-1]) > at_ns:
        offset = _first_after(ages[-1], at_ns)
        _end_before(ages, len(ages) - 1, offset)


def _end_before(ages: Ages, i: int, offset: int) -> None:
    """Let entry ``i`` end before ``offset``."""
    if offset <= ages[i][1]:
        del ages[i]
    else:
        ages[i][2] = min(ages[i][2], offset - 1)


def forget_below(ages: Ages, start: int) -> None:
    """Forget what only tells of offsets below ``start``, but for the last of that."""
    gone = bisect_left(ages, start, lo=min(1, len(ages)), key=itemgetter(1)) - 1
    del ages[: max(gone, 0)]


def remember(ages: Ages, offset: int, n: int, sent_ns: Callable[[int], int | None], step: int) -> None:
    """Note when ``n`` records from ``offset`` on were sent: ``sent_ns`` returns when the i-th was (rising), or None."""
    fine = step // _FINE
    last = sent_ns(n - 1)
    if last is None or (ages and offset > ages[-1][1] and last - ages[-1][0] < fine and len(ages[-1]) == _POINT):
        return  # the usual case
    for i in range(n):
        at_ns = sent_ns(i)
        above = bisect_left(ages, offset + i, key=itemgetter(1))
        if at_ns is None or (
            above and at_ns - _sent(ages[above - 1], offset + i) < (fine if len(ages[above - 1]) == _POINT else step)
        ):
            continue
        if above and len(ages[above - 1]) > _POINT and ages[above - 1][2] >= offset + i:
            above = _split(ages, above - 1, offset + i)  # what follows stands at or above it
        later = above
        while later < len(ages) and _latest(ages[later]) <= at_ns:
            later += 1  # those were cut off since: what was sent later stands below
        if later < len(ages) and ages[later][0] <= at_ns:  # a part of a line
            later = _split(ages, later, _first_after(ages[later], at_ns))
        ages[above:later] = [[at_ns, offset + i]]
        if len(ages) >= _POINTS and len(ages[-_POINTS]) == _POINT:
            _draw(ages, step - fine)
        if len(ages) > _KEPT:
            del ages[1::2]


def _split(ages: Ages, i: int, offset: int) -> int:
    """Divide a line at ``offset``, and return the number of the second part."""
    ns, first, last, *slopes = ages[i]
    second = [_sent(ages[i], offset), offset, last, *[sum(slopes) // 2] * len(slopes)]
    ages[i : i + 1] = [[ns, first, offset - 1, *slopes], second] if first < offset else [second]
    return i + (first < offset)


def _draw(ages: Ages, room: int) -> None:
    """Make lines of the points at the end; where they make none, a flat one for all that is within a step of one."""
    first = len(ages) - _POINTS
    points, drawn = ages[first:], []
    if any(len(point) != _POINT for point in points):
        return
    i, end = 0, len(points) - _LATEST
    if first and len(ages[first - 1]) == _LINE:
        i = _go_on(ages[first - 1], points, 0, end, room)
    while i < end:
        (ns, offset), (next_ns, next_offset) = points[i : i + 2]
        rise = next_ns - ns if next_offset > offset + 1 else 0
        line = [ns - (room + rise) // 2, offset, offset, 0, 1 << 62]
        n = _go_on(line, points, i, end, room) if rise < room else i
        if n - i < _LEAST:
            n = next((k for k in range(i + 1, end) if points[k][0] > ns + room), end)
            line = [ns, offset, points[n][1] - 1]
        drawn.append(line)
        i = n
    ages[first:] = [*drawn, *points[end:]]


def _go_on(line: list[int], points: Ages, i: int, end: int, room: int) -> int:
    """Let a line go on over points as far as it tells their times; return the number of the first that is not in it.

    At the offset of a point it may be early by ``room`` at most, and just below the next point it may not be late.
    """
    begin_ns, begin, _, low, high = line
    while i < end:
        (ns, offset), last = points[i], points[i + 1][1] - 1
        if offset > begin:
            low = max(low, -((begin_ns - ns + room) * _SCALE // (offset - begin)))
        if last > begin:
            high = min(high, (ns - begin_ns) * _SCALE // (last - begin))
        if low > high or last < offset:
            break
        line[2:] = [last, low, high]
        i += 1
    return i

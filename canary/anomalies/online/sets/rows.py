"""Rows of integers in which a pattern repeats: their size grows with what breaks the pattern, not with their number.

Example: a transaction writes two records to a partition and leaves a marker behind them, again and again; every tenth
one is aborted. The committed offsets [0, 2), [3, 5), ... [24, 26), [30, 32), ... are nine rows, and each later row is
the row nine before it plus (30, 30). However many there are, they are kept as one *stretch*, and nothing of them is
lost. Rows in which nothing repeats are kept as they are, in stretches of _LITERAL rows at most.

A row begins with what it covers, [start, end); rows ascend and do not overlap. A stretch is a list of integers, in
memory as on disk: the number of its rows, the number of rows in its pattern, the step of each column from one round of
the pattern to the next, and the pattern. One that repeats nothing is its pattern once, and its steps are 0.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter, sub

Row = tuple[int, ...]
"""Start, end, and whatever else belongs to it: ``width`` integers, as many in each row of a list."""
Stretches = list[list[int]]

LONGEST = 24
"""Rows of a pattern at most."""
TIMES = 3
"""A pattern is one if it is there so many times."""
LATEST = 8
"""So many rows at the end stay out of the stretches: they change."""
SOME, MANY = 32, LONGEST * TIMES + 72
"""With so many rows it is tried whether they go on as those before; with many, whether any pattern is there."""
_LITERAL = 64


def row(one: list[int], i: int, width: int) -> Row:
    """Return row ``i`` of a stretch, which may be one that would follow."""
    rounds, i = divmod(i, one[1])
    at = 2 + width * (i + 1)
    if not rounds:
        return tuple(one[at : at + width])
    if width == 2:  # as in the general case, without a loop
        return one[at] + rounds * one[2], one[at + 1] + rounds * one[3]
    return tuple([x + rounds * step for x, step in zip(one[at : at + width], one[2:], strict=False)])


def last(stretches: Stretches, width: int) -> Row:
    """Return the last row."""
    return row(stretches[-1], stretches[-1][0] - 1, width)


def every(stretches: Stretches, width: int) -> Iterator[Row]:
    """Yield all rows."""
    return (row(one, i, width) for one in stretches for i in range(one[0]))


def at(stretches: Stretches, x: int, width: int) -> tuple[int, int]:
    """Return the stretch and the row in it of the last row that starts at or below ``x``, (-1, -1) if none does."""
    j = bisect_right(stretches, x, key=itemgetter(2 + width)) - 1
    if j < 0:
        return -1, -1
    one = stretches[j]
    step, starts = one[2], one[2 + width :: width]
    rounds = min((x - starts[0]) // step, (one[0] - 1) // one[1]) if step else 0
    return j, min(rounds * one[1] + bisect_right(starts, x - rounds * step) - 1, one[0] - 1)


def within(stretches: Stretches, a: int, b: int, width: int) -> Iterator[Row]:
    """Yield the rows that cover something of [a, b)."""
    j, first = at(stretches, a, width)
    if a >= b:
        return
    for one in stretches[max(j, 0) :]:
        for i in range(max(first, 0), one[0]):
            found = row(one, i, width)
            if found[0] >= b:
                return
            if found[1] > a:
                yield found
        first = 0


def replace(stretches: Stretches, a: int, b: int, rows: Sequence[Row], width: int) -> None:
    """Put ``rows`` in the place of those that cover something of [a, b); they lie where those did, or within [a, b)."""
    j, i = at(stretches, a, width)
    if j < 0:
        j, i = 0, 0
    elif row(stretches[j], i, width)[1] <= a:
        i += 1
    k, end = at(stretches, b - 1, width)
    before = _part(stretches[j], 0, i, width) if j < len(stretches) else []
    after = _part(stretches[k], end + 1, stretches[k][0], width) if k >= j else []
    if k < j and stretches:
        k, after = j, _part(stretches[j], i, stretches[j][0], width)
    stretches[j : k + 1] = [one for one in (before, _literal(rows, width), after) if one]


def _part(one: list[int], i: int, end: int, width: int) -> list[int]:
    """Return the rows [i, end) of a stretch as a stretch, an empty list if there are none."""
    if i >= end:
        return []
    length = min(one[1], end - i)
    if i + length <= one[1]:  # all of it is in the first round
        pattern = one[2 + width * (i + 1) : 2 + width * (i + length + 1)]
    else:
        pattern = [x for n in range(i, i + length) for x in row(one, n, width)]
    steps = one[2 : 2 + width] if end - i > length else [0] * width
    return [end - i, length, *steps, *pattern]


def _literal(rows: Sequence[Row], width: int) -> list[int]:
    return [len(rows), len(rows), *[0] * width, *(x for one in rows for x in one)] if rows else []


def append(stretches: Stretches, rows: Sequence[Row], width: int) -> int:
    """Take in rows that follow; return how many: of the last ones it may not be clear yet whether they repeat."""
    i, n = _going_on(stretches, rows, width), len(rows)
    differences = [tuple(map(sub, after, before)) for before, after in zip(rows[i:], rows[i + 1 :], strict=False)]
    skipped = i
    while n - i >= LONGEST * TIMES:
        length, found = _pattern(differences, i - skipped)
        if found:
            pattern = [x for one in rows[i : i + length] for x in one]
            steps = map(sub, rows[i + length], rows[i])
            stretches.append([found, length, *steps, *pattern])
            i += found
        else:
            _append_literal(stretches, rows[i], width)
            i += 1
    return i


def goes_on(stretches: Stretches, one: Row) -> bool:
    """Say whether a row is the one that would follow in the last pattern."""
    if not stretches or not stretches[-1][2]:
        return False
    return row(stretches[-1], stretches[-1][0], len(one)) == one


def _going_on(stretches: Stretches, rows: Sequence[Row], width: int) -> int:
    """Return how many rows go on as the last stretch does; it has them then."""
    if not stretches or not stretches[-1][2]:
        return 0
    one, i = stretches[-1], 0
    while i < len(rows) and row(one, one[0] + i, width) == rows[i]:
        i += 1
    one[0] += i
    return i


def _pattern(differences: Sequence[Row], i: int) -> tuple[int, int]:
    """Return the length of the pattern that begins with row ``i``, and how many rows it explains; (0, 0): none."""
    best = (0, 0)
    for length in range(1, LONGEST + 1):
        m, end = i, len(differences) - length
        while m < end and differences[m] == differences[m + length]:
            m += 1
        found = m - i + length + 1
        if found >= length * TIMES and found - length > best[1] - best[0]:
            best = (length, found)
    return best


def _append_literal(stretches: Stretches, one: Row, width: int) -> None:
    if stretches and not stretches[-1][2] and stretches[-1][0] < _LITERAL:
        stretches[-1][0] += 1
        stretches[-1][1] += 1
        stretches[-1].extend(one)
    else:
        stretches.append(_literal([one], width))


def take_back(stretches: Stretches, width: int) -> list[Row]:
    """Remove the last rows, at least one, and return them: they may change again."""
    one = stretches[-1]
    rest = max(one[0] - LONGEST, 0)
    rows = [row(one, i, width) for i in range(rest, one[0])]
    stretches[-1:] = [part for part in [_part(one, 0, rest, width)] if part]
    return rows

"""Cron expressions, read as APScheduler reads them, which starts what they schedule; here without it."""

import re
from datetime import date, timedelta
from itertools import pairwise
from typing import Final

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FIELDS: Final = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 6, _DAYS))
"""Of minute, hour, day of month, month, day of week: the least and the most, and names from the least on."""
_NUMBERS: Final = re.compile(r"(?:\*|(?P<first>\d+)(?:-(?P<last>\d+))?)(?:/(?P<step>\d+))?")
_NAMES: Final = re.compile(r"(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))?")
_LOOKED_AT: Final = (date(2024, 1, 1), 40 * 366)
"""The days that are looked at: every combination of day, month and day of the week is among them."""


def longest_gap_s(expression: str) -> float:
    """Return the longest time (s) between two hours that a cron expression names; clocks that are put forward aside.

    Raises:
        ValueError: it is no cron expression, or names no hours.
    """
    minutes, hours, days, months, weekdays = (
        _values(text, *field) for text, field in zip(expression.split(), _FIELDS, strict=True)
    )
    times = sorted(60 * hour + minute for hour in hours for minute in minutes)
    first, count = _LOOKED_AT
    dates = (first + timedelta(number) for number in range(count))
    struck = [one.toordinal() for one in dates if one.day in days and one.month in months and one.weekday() in weekdays]
    within = [later - earlier for earlier, later in pairwise(times)]
    between = [1440 * (later - earlier) + times[0] - times[-1] for earlier, later in pairwise(struck)]
    if not between:
        raise ValueError(expression)
    return 60.0 * max(within + between)


def _values(text: str, least: int, most: int, names: tuple[str, ...]) -> set[int]:
    """Return the numbers that a field names.

    Raises:
        ValueError: it is no field of a cron expression.
    """
    found: set[int] = set()
    for part in text.lower().split(","):
        if named := _NAMES.fullmatch(part):
            first = least + names.index(named["first"])
            last, step = (least + names.index(named["last"]) if named["last"] else first), 1
        elif match := _NUMBERS.fullmatch(part):
            first = int(match["first"] or least)
            last = int(match["last"] or (first if match["first"] and not match["step"] else most))
            step = int(match["step"] or 1)
        else:
            raise ValueError(part)
        if not least <= first <= last <= most or not 1 <= step <= max(last - first, 1):
            raise ValueError(part)
        found.update(range(first, last + 1, step))
    return found

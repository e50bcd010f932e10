"""Lists of polled messages, lifted out of JSON text before it is parsed.

Most of a history is lists like ``[[17,203],[18,204]]``. Parsed as JSON each pair becomes a list of two objects, only
to be taken apart again. So they are cut out of the text by a regular expression, a placeholder stays behind, and all
their numbers are parsed at once. What has another form (text, null, white space) stays where it is; and where the
result does not add up (a list elsewhere than in a poll, say, or in a string), the text is parsed as it was.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

PLACEHOLDER = -7
"""Stands in a poll where a list was; any number would do, for they are counted."""

_LISTS = re.compile(rb":\[\[([\d,\[\]]+)\]\]")
_DIGITS = b"0123456789"
_BETWEEN = b"],["


@dataclass(frozen=True, slots=True)
class Lifted:
    """What was cut out: the length of each list, and (offset, value) of all their messages as rows of two."""

    lengths: NDArray[np.int64]
    pairs: NDArray[Any]


def lift(text: bytes) -> tuple[bytes, Lifted] | None:
    """Return the text without its lists of pairs, and these; None if there are none, or odd ones."""
    parts = _LISTS.split(text)
    lists = parts[1::2]
    if not lists:
        return None
    lengths = [one.count(_BETWEEN) + 1 for one in lists]
    together = _BETWEEN.join(lists)
    count = sum(lengths)
    if together.translate(None, _DIGITS) != (b",],[" * count)[:-3]:
        return None
    try:
        flat = orjson.loads(b"[%b]" % together.replace(_BETWEEN, b","))
        numbers = np.fromiter(flat, np.int64, len(flat))
    except (orjson.JSONDecodeError, OverflowError):
        return None
    shortened = (b":%d" % PLACEHOLDER).join(parts[0::2])
    return shortened, Lifted(np.asarray(lengths, np.int64), numbers.reshape(-1, 2))

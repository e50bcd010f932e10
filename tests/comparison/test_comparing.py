"""What the comparison concludes from what tools said."""

from __future__ import annotations

from dataclasses import replace

from tests.comparison.__main__ import _cell, _right
from tests.comparison.faults import Destroyed
from tests.comparison.tools import Said

GONE = {0: Destroyed(first=10, sure=14, end=16)}
BEFORE = Said(produced=100, places=((1, 3, 2),))


def test_every_record_that_was_surely_destroyed_has_to_be_named_and_none_that_was_not() -> None:
    def said(*places: tuple[int, int, int]) -> Said:
        return replace(BEFORE, places=(*BEFORE.places, *places))

    assert _right(BEFORE, said((0, 10, 4)), GONE)
    assert _right(BEFORE, said((0, 10, 6)), GONE)  # those on their way may have been acknowledged
    assert not _right(BEFORE, said((0, 10, 3)), GONE)
    assert not _right(BEFORE, said((0, 10, 7)), GONE)
    assert not _right(BEFORE, said((0, 10, 4), (1, 9, 1)), GONE)
    assert not _right(BEFORE, said((1, 9, 1)), {})
    assert _right(BEFORE, BEFORE, {})


def test_a_cell_says_what_is_new() -> None:
    after = Said(produced=200, places=((0, 10, 5), (0, 20, 1), (1, 3, 2)), words={"lost-write": 2, "truncation": 1})
    assert _cell(BEFORE, after, GONE) == "5 lost, by offset, and 1 falsely; truncation: 1"
    assert _cell(Said(lost=3), Said(produced=10, lost=15), None) == '12 "lost"'
    assert _cell(BEFORE, replace(BEFORE, produced=101), None) == "nothing"
    assert _cell(BEFORE, BEFORE, None) == "nothing acknowledged any more"
    assert _cell(BEFORE, None, None) == "does not answer"

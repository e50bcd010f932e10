"""Every mend can be taken out: its edits fit the code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simulation.search.edits import Edit, changed
from simulation.search.mends import TAKEN_OUT, Mend
from simulation.search.taken_out import ROOT, Verdict, heard, shown

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulator

ITEMS = [
    "A1",
    "A2",
    "A4",
    "A5",
    "B1",
    "B2",
    "B3",
    "B4",
    "B5",
    "B7",
    "45-B2",
    "45-B2",
    "45-B2",
    "45-B2",
    "45-A2",
    "45-A3",
    "45-A3",
    "45-A6",
    "45-B1",
    "45-B1",
    "45-B10",
    "45-B11",
    "C1",
    "C2",
    "C3",
    "C4",
    "C5",
    "C7",
]


def test_the_edits_of_every_mend_fit_the_code() -> None:
    for mend in TAKEN_OUT:
        assert set(changed(ROOT, mend.edits)) == {edit.file for edit in mend.edits}, mend.name


def test_each_item_has_one_mend_with_a_name_of_its_own() -> None:
    assert [mend.item for mend in TAKEN_OUT] == ITEMS
    assert len({mend.name for mend in TAKEN_OUT}) == len(TAKEN_OUT)


def test_the_verdict_is_the_first_wrong_thing_of_the_first_life_that_is_told() -> None:
    assert heard("  12 of 30 pairs were met\n40 lives\n") == Verdict(None)
    story = "seed 12: 0.4 h\n   3.0 s  kill for 2.0 s\n  FALSE: it is there\n  MISSED: offset 3\nseed 13: 0.4 h\n"
    assert heard(story) == Verdict("FALSE: it is there", 12)


SIMULATION = """
import pathlib, sys

mended = pathlib.Path("file").read_text() == "mended = True"
if "--seed" in sys.argv:
    wrong = {int(sys.argv[sys.argv.index("--seed") + 1])} & ({3} if mended else {3, 5})
else:
    first = int(sys.argv[sys.argv.index("--first") + 1])
    wrong = {seed for seed in (3, 5) if seed >= first and not mended}
for seed in sorted(wrong)[:1]:
    print(f"seed {seed}: a life\\n  MISSED: offset {seed}")
sys.exit(bool(wrong))
"""


def test_a_seed_that_goes_wrong_in_the_whole_tree_too_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "simulation").mkdir()
    (tmp_path / "simulation" / "__init__.py").touch()
    (tmp_path / "simulation" / "__main__.py").write_text(SIMULATION)
    (tmp_path / "file").write_text("mended = True")
    mend = Mend("mend", "", "", (Edit("file", "", "True", "False"),))
    assert shown(mend, tmp_path, 1, 60, ())[:2] == ("MISSED: offset 5", 5)
    assert shown(mend, tmp_path, 6, 60, ())[:2] == (None, None)
    (tmp_path / "simulation" / "__main__.py").write_text("raise ValueError('no life')")
    with pytest.raises(RuntimeError, match="no life"):
        shown(mend, tmp_path, 1, 60, ())

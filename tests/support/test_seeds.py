"""Cases drawn at random: fresh, printed, and repeated by what was printed."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.seeds import SESSION, cases, examples

if TYPE_CHECKING:
    from pathlib import Path

FAILING = """
from hypothesis import given, settings, strategies as st
from tests.support.seeds import cases, examples

def test_cases():
    tried = list(cases("a", 5))
    assert len(tried) != 10, f"tried {tried}"

def test_one_case():
    for seed in cases("b", 5):
        assert not seed, f"case {seed}"

tried = []

@settings(max_examples=examples(3))
@given(st.integers())
def test_examples(n):
    tried.append(n)
    assert len(tried) < 6, f"examples {tried}"
"""


def printed(folder: Path, *options: str) -> str:
    (folder / "test_failing.py").write_text(FAILING)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", "/dev/null", *options, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.mark.dear("two sessions of pytest, the second by what the first one printed")
def test_what_is_printed_repeats_the_cases(tmp_path: Path) -> None:
    fresh = printed(tmp_path, "--explore", "2")
    (seed,) = set(re.findall(r"pytest --seed (\d+) --explore 2", fresh))
    assert "3 failed" in fresh
    (case,) = set(re.findall(r"AssertionError: case (\d+)", fresh))
    assert f"the case that failed has the seed {case}\n" in fresh
    again = printed(tmp_path, "--seed", seed, "--explore", "2")
    for what in ("tried", "examples"):
        before, after = (set(re.findall(rf"AssertionError: {what} \[(.*)\]", text)) for text in (fresh, again))
        assert len(before) == 1
        assert before == after


def test_known_cases_come_first_and_others_differ_by_name() -> None:
    assert next(cases("a", 1, 830)) == 830
    assert list(cases("a", 3, 830))[1:] == list(cases("a", 3))
    assert list(cases("a", 3)) != list(cases("b", 3))


def test_a_part_of_the_cases_is_one_at_least_and_none_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for scale, counts in ((1.0, [0, 1, 3, 100]), (0.2, [0, 1, 1, 20]), (20.0, [0, 20, 60, 2000])):
        monkeypatch.setattr(SESSION, "scale", scale)
        assert [examples(count) for count in (0, 1, 3, 100)] == counts
        assert len(list(cases("a", 3, 830))) == 1 + counts[2]

"""The runner of mutations finds what fails with each edit, however it has to be put there, and what tests are spare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simulation.search.edits import Edit
from tests.mutations import matrix, session
from tests.support.forks import at_once

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CODE = "LIMIT = 3\n\n\ndef within(n):\n    return n <= LIMIT\n"
TESTS = """
import subprocess, sys

import limits


def test_three_is_within():
    assert limits.within(3)


def test_four_is_not():
    assert not limits.within(4)


def test_another_process_agrees():
    command = [sys.executable, "-c", "import limits; print(limits.within(4))"]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "False\\n"
"""
EDITS = (
    Edit("limits.py", "within", "n <= LIMIT", "n < LIMIT"),
    Edit("limits.py", "within", "n <= LIMIT", "True"),
    Edit("limits.py", "", "LIMIT = 3", "LIMIT = 2"),
    Edit("limits.py", "within", "n <= LIMIT", "not n > LIMIT"),
    Edit("limits.py", "", "LIMIT = 3", "LIMIT = 1 / 0"),
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with one module and its tests."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "limits.py").write_text(CODE)
    (tmp_path / "tree" / "test_limits.py").write_text(TESTS)
    (tmp_path / "tree" / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--seed')\n")
    return tmp_path / "tree"


def failures(tree: Path, edits: Sequence[Edit], *, first: bool) -> list[Sequence[str]]:
    """Return what fails with nothing broken, and with each edit. It forks, which a large process should not."""
    whole = session.whole(tree, ["test_limits.py"])
    assert len(whole.cpu_s) == 3
    found = {edit: outcome.failed for edit, outcome in session.outcomes(tree, ["test_limits.py"], edits, first=first)}
    return [whole.failed, *(found[edit] for edit in edits)]


def every_failure(tree: Path) -> list[Sequence[str]]:
    return failures(tree, EDITS, first=False)


def first_failure(tree: Path) -> list[Sequence[str]]:
    return failures(tree, EDITS[1:2], first=True)


def of_what_hangs(tree: Path) -> list[Sequence[str]]:
    session.HANGS_S = 2
    return failures(tree, [Edit("limits.py", "within", "n <= LIMIT", "[0 for _ in iter(int, 1)]")], first=False)


def test_each_edit_is_seen_by_the_tests_whether_it_runs_now_at_the_import_or_in_another_process(tree: Path) -> None:
    (found,) = at_once(every_failure, tree, count=1)
    three, four, another = (
        f"test_limits.py::test_{name}" for name in ("three_is_within", "four_is_not", "another_process_agrees")
    )
    assert found == [[], [three], [four, another], [three], [], ["test_limits.py"]]
    assert (tree / "limits.py").read_text() == CODE


def test_with_first_a_run_ends_where_the_first_fails(tree: Path) -> None:
    assert at_once(first_failure, tree, count=1) == [[[], ["test_limits.py::test_four_is_not"]]]


def test_an_item_that_hangs_has_failed(tree: Path) -> None:
    assert at_once(of_what_hangs, tree, count=1) == [[[], ["test_limits.py::test_three_is_within"]]]


def test_what_kills_nothing_that_others_do_not_kill_is_spare_the_dearest_first() -> None:
    cpu_s = {"a.py::dear": 9.0, "a.py::fair": 2.0, "b.py::cheap": 1.0, "b.py::idle": 0.5}
    failed = [["a.py::dear", "b.py::cheap"], ["a.py"], ["b.py::cheap", "a.py::fair"], []]
    lines = matrix.costs(cpu_s) + "".join(map(matrix.kills, EDITS, failed))
    assert matrix.report(lines.splitlines()) == (
        "    9.000 CPU-s     2 kills  a.py::dear\n"
        "    0.500 CPU-s     0 kills  b.py::idle\n"
        "2 of 4 items, 9.5 of 12.5 CPU-s, kill nothing that others do not kill\n"
    )

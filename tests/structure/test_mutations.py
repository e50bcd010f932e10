"""Every mutation fits the code and names tests that are there: one that does not would never be tried."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from simulation.search.edits import Edit, scopes
from tests.mutations.running import TABLE
from tests.mutations.session import ROOT


def misfits(edits: list[Edit]) -> list[str]:
    """Return what is wrong with edits, each by itself."""
    files = {file: ROOT / file for file in dict.fromkeys(edit.file for edit in edits)}
    found = [
        f"{file}: there is no such file: name the one in which the code stands"
        for file, path in files.items()
        if not path.is_file()
    ]
    named = {file: scopes(ast.parse(path.read_text())) for file, path in files.items() if path.is_file()}
    for edit in edits:
        if edit.file in named:
            try:
                edit.site(named[edit.file])
            except ValueError as error:
                found.append(str(error))
    return found


def test_every_mutation_changes_code_that_stands_exactly_once() -> None:
    wrong = misfits([entry.edit for entry in TABLE])
    assert not wrong, "\n".join(wrong)


def test_every_mutation_stands_in_the_table_once() -> None:
    assert [(edit, n) for edit, n in Counter(entry.edit for entry in TABLE).items() if n > 1] == []


def test_the_tests_of_every_mutation_are_there() -> None:
    sets = dict.fromkeys(tests for entry in TABLE for tests in entry.tests)
    files = dict.fromkeys(name for tests in sets for name in tests if name.endswith(".py") or "/" in name)
    assert [name for name in files if not (ROOT / Path(name)).exists()] == []

"""Every mutation fits the code and names tests that are there: one that does not would never be tried."""

from collections import Counter
from functools import cache
from pathlib import Path

from tests.mutations.running import ROOT, TABLE


@cache
def text(file: str) -> str:
    """Return what a file holds, nothing if it is gone."""
    path = ROOT / file
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def test_every_original_stands_exactly_once() -> None:
    times = [(entry, text(entry.file).count(entry.original)) for entry in TABLE]
    wrong = [f"{entry.file}: {entry.original!r} stands there {n} times" for entry, n in times if n != 1]
    assert not wrong, "\n".join(wrong)


def test_every_mutation_changes_something_and_stands_in_the_table_once() -> None:
    assert [f"{entry.file}: {entry.original!r}" for entry in TABLE if entry.original == entry.mutated] == []
    assert [(*entry, n) for entry, n in Counter((m.file, m.original, m.mutated) for m in TABLE).items() if n > 1] == []


def test_the_tests_of_every_mutation_are_there() -> None:
    sets = dict.fromkeys(tests for entry in TABLE for tests in entry.tests)
    files = dict.fromkeys(name for tests in sets for name in tests if name.endswith(".py") or "/" in name)
    assert [name for name in files if not (ROOT / Path(name)).exists()] == []

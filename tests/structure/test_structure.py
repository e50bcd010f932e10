"""The house stays a house: no import cycles, rooms of at most a dozen modules, short files, functions and signatures.

Signatures (at most 8 parameters) are ruff's business: PLR0913 in pyproject.toml.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("canary", "api", "storage", "spark_reconcile", "canary_receipts", "dashboards", "simulation")
MOST_MODULES = 12
"""Of a room, without its ``__init__``, which is its door."""
MOST_LINES = 400
LONGEST_FUNCTION = 60
MIGRATIONS = "storage.store.migrations.versions."
"""What a database went through is not rewritten, and is as long as its tables."""


@cache
def modules() -> Mapping[str, ast.Module]:
    """Return every module of the product and of its simulator, parsed, by its dotted name; a package by its own."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that one imports, also within functions and only for types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                inner = f"{node.module}.{one.name}"
                yield inner if inner in modules() else node.module


def cycles(graph: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Return the sets of nodes that reach one another, each sorted: what is left when ends are cut off and joined."""
    reach = {name: _reached(graph, name) for name in graph}
    groups = {tuple(sorted({name, *(o for o in seen if name in reach[o])})) for name, seen in reach.items()}
    return sorted(group for group in groups if len(group) > 1 or group[0] in graph[group[0]])


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        if (name := ahead.pop()) not in seen:
            seen.add(name)
            ahead.extend(graph[name])
    return seen


def test_cycles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str](), "e": {"e"}}
    assert cycles(graph) == [("b", "c"), ("e",)]


def test_no_modules_import_each_other() -> None:
    graph = {name: {one for one in imported(tree) if one in modules()} for name, tree in modules().items()}
    assert cycles(graph) == []


def test_nothing_but_tests_imports_tests() -> None:
    assert [
        name for name, tree in modules().items() if any(one.split(".")[0] == "tests" for one in imported(tree))
    ] == []


def test_a_room_has_a_dozen_modules_at_most() -> None:
    packages = {name.rpartition(".")[0] for name in modules()}
    # migrations are a sequence that only grows
    names = (name for name in modules() if name not in packages and not name.startswith(MIGRATIONS))
    rooms = Counter(name.rpartition(".")[0] for name in names)
    assert {room: count for room, count in rooms.items() if count > MOST_MODULES} == {}


def test_a_file_fits_in_one_sitting() -> None:
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    lengths = {str(path.relative_to(ROOT)): path.read_bytes().count(b"\n") for path in files}
    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES} == {}


def test_a_function_fits_on_a_screen() -> None:
    lengths = {
        f"{name}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not name.startswith(MIGRATIONS)
    }
    assert {name: size for name, size in lengths.items() if size > LONGEST_FUNCTION} == {}

"""Whether the simulator's own tests have to run: whether anything that they depend on differs from the main branch.

The simulator's own tests (marker ``simulator``) show that it behaves like Kafka, a disk and a database, and that its
verdicts notice what is wrong. They say nothing about the canary, so they run where the simulator may have changed:
where a file of ``simulation`` or ``tests/simulation``, or a module that ``simulation`` imports, directly or not,
differs from the merge base with ``main``. What is not committed counts. Elsewhere they are deselected. They run as well
without a base to compare with, with ``--simulator``, and where a file of theirs is named on the command line.
"""

from __future__ import annotations

import ast
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

ROOT = Path(__file__).parents[2]
PROGRAM = "simulation"
FOLDERS = (PROGRAM, "tests/simulation")
BY_NAME = (
    *("pyproject.toml", "uv.lock", "tests/conftest.py"),
    *("canary/probing", "canary/workloads", "storage/store/migrations"),
)
"""No import statement shows them: settings, versions of libraries, what is loaded by names that are put together."""
BRANCHES = ("refs/remotes/origin/main", "refs/heads/main")


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the tests run, and why."""

    run: bool
    why: str


def decided(root: Path, base: str | None = None) -> Decision:
    """Decide for a tree; ``base`` names the commit to compare with, None: the merge base with the main branch."""
    commit = base_of(root, base)
    if commit is None:
        return Decision(run=True, why="there is no other commit to compare with")
    short = commit[:8]
    files = changed(root, commit)
    if files is None:
        return Decision(run=True, why=f"git cannot compare with {short}")
    mine = next((one for one in files if _within(one, (*FOLDERS, *BY_NAME))), None)
    if mine is None:
        try:
            needed = imported(root)
        except (SyntaxError, ValueError) as error:
            return Decision(run=True, why=f"a module cannot be read: {error}")
        folders = {Path(one).parent for one in needed}  # what is no module is read by its neighbours
        mine = next((one for one in files if one in needed or _beside(one, folders)), None)
    if mine is None:
        return Decision(run=False, why=f"nothing that {PROGRAM} imports differs from {short}")
    return Decision(run=True, why=f"{mine} differs from {short}")


def _beside(file: str, folders: Collection[Path]) -> bool:
    return not file.endswith(".py") and Path(file).parent in folders


def _within(file: str, folders: Sequence[str]) -> bool:
    return any(file == folder or file.startswith(f"{folder}/") for folder in folders)


def base_of(root: Path, base: str | None = None) -> str | None:
    """Return the commit to compare with; None without git, or where the tree is that commit and clean."""
    head = _git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if not head:
        return None
    if base:
        found = [_git(root, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")]
    else:
        found = [_git(root, "merge-base", "HEAD", name) for name in BRANCHES]
    bases = [one for one in found if one]
    older = next((one for one in bases if one != head), None)
    if older is None and bases and os.environ.get("CI") != "true" and _git(root, "status", "--porcelain"):
        return head
    return older


def changed(root: Path, base: str) -> list[str] | None:
    """Return the files that differ from a commit: committed since, not committed, unknown to git. None: not known."""
    differing = _git(root, "diff", "--name-only", "--no-renames", "--relative", "-z", base, "--")
    unknown = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    if differing is None or unknown is None:
        return None
    return sorted({*differing.split("\0"), *unknown.split("\0")} - {""})


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git prints, None if it fails or is not there."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, errors="surrogateescape", check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def imported(root: Path) -> set[str]:
    """Return the files that the program imports, directly or not, in functions or only for types, too.

    A module that is not there counts under the names that its file may have: it may have been there before.
    """
    ahead = [path.relative_to(root).as_posix() for folder in FOLDERS for path in (root / folder).rglob("*.py")]
    found = set(ahead)
    while ahead:
        path = root / ahead.pop()
        if path.is_file():
            new = {one for name in _imports(path, root) for one in _files(name)} - found
            found |= new
            ahead.extend(new)
    return found


def _imports(path: Path, root: Path) -> Iterator[str]:
    """Yield the modules that a file may import: of ``from a import b`` both ``a`` and ``a.b``."""
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = path.relative_to(root).parent.parts
            start = [*above[: len(above) + 1 - node.level]] if node.level else []
            module = ".".join([*start, *(node.module or "").split(".")]).strip(".")
            yield module
            yield from (f"{module}.{one.name}" for one in node.names)


def _files(module: str) -> Iterator[str]:
    """Yield the files that a module may be, and the packages that are imported before it."""
    parts = module.split(".")
    yield f"{'/'.join(parts)}.py"
    for length in range(1, len(parts) + 1):
        yield f"{'/'.join(parts[:length])}/__init__.py"


def named(arguments: Collection[str]) -> bool:
    """Return whether files or folders of the simulator's tests are named on the command line."""
    places = (Path(one.partition("::")[0]).absolute() for one in arguments)
    return any(place.is_relative_to(ROOT / "tests/simulation") for place in places)


def add_option(parser: pytest.Parser) -> None:
    """Add the option that asks for the simulator's own tests."""
    parser.addoption("--simulator", action="store_true", help="the simulator's own tests, whatever has changed")


class Affected:
    """Leaves the simulator's own tests out of a session that they have no part in."""

    def __init__(self, config: pytest.Config) -> None:
        options = vars(config.option)  # the processes of one session share them
        if "simulator_why" not in options:
            decision = self._decided(config)
            config.option.simulator, config.option.simulator_why = decision.run, decision.why
        self.decision = Decision(config.option.simulator, config.option.simulator_why)

    @staticmethod
    def _decided(config: pytest.Config) -> Decision:
        if config.option.simulator:
            return Decision(run=True, why="asked for by --simulator")
        if named(config.invocation_params.args):
            return Decision(run=True, why="named on the command line")
        return decided(ROOT, os.environ.get("CANARY_BASE"))

    def pytest_report_header(self) -> str:
        """Say whether they run, and why."""
        run = "run" if self.decision.run else "are left out (--simulator: not)"
        return f"the simulator's own tests {run}: {self.decision.why}"

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect them."""
        if self.decision.run:
            return
        out = [item for item in items if item.get_closest_marker("simulator") is not None]
        if out:
            config.hook.pytest_deselected(items=out)
            items[:] = [item for item in items if item.get_closest_marker("simulator") is None]

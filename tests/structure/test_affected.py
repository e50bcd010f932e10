"""The simulator's own tests run where something that they depend on differs from the main branch, and nowhere else."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.affected import ROOT, base_of, decided, imported, named

if TYPE_CHECKING:
    from pathlib import Path

TREE = {
    "simulation/__init__.py": "",
    "simulation/life.py": "from canary.runner import run\n",
    "canary/__init__.py": "",
    "canary/runner/__init__.py": "",
    "canary/runner/run.py": "def main():\n    from canary import late\n",
    "canary/late.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import typed\n",
    "canary/typed.py": "import canary.gone\n",
    "canary/pages.py": "import canary.runner\n",
    "tests/simulation/test_life.py": "",
    "docs/testing.md": "",
}


def git(tree: Path, *arguments: str) -> str:
    """Run git, with no settings but these."""
    env = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    name = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(["git", *name, *arguments], cwd=tree, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def write(tree: Path, file: str, text: str = "changed = True\n") -> None:
    (tree / file).parent.mkdir(parents=True, exist_ok=True)
    (tree / file).write_text(text)


def commit(tree: Path, words: str = "words") -> str:
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", words)
    return git(tree, "rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def _no_continuous_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with a branch that has one commit more than main, which changes a document."""
    for file, text in TREE.items():
        write(tmp_path, file, text)
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    commit(tmp_path)
    git(tmp_path, "checkout", "--quiet", "-b", "branch")
    write(tmp_path, "docs/testing.md")
    commit(tmp_path)
    return tmp_path


def test_they_do_not_run_where_nothing_that_the_simulator_imports_differs(tree: Path) -> None:
    assert not decided(tree).run
    write(tree, "canary/pages.py")
    write(tree, "canary/unknown.py")
    write(tree, "tests/simulator.py")
    assert not decided(tree).run
    commit(tree)
    decision = decided(tree)
    assert not decision.run
    assert decision.why == f"nothing that simulation imports differs from {git(tree, 'rev-parse', 'main')[:8]}"


@pytest.mark.parametrize(
    "file",
    [
        "simulation/life.py",
        "simulation/new.py",
        "tests/simulation/test_life.py",
        "canary/__init__.py",
        "canary/runner/run.py",
        "canary/late.py",
        "canary/typed.py",
        "storage/store/migrations/versions/m1.py",
        "uv.lock",
    ],
)
@pytest.mark.parametrize("committed", [True, False])
def test_they_run_where_it_differs_committed_or_not(tree: Path, file: str, *, committed: bool) -> None:
    write(tree, file)
    if committed:
        commit(tree)
    decision = decided(tree)
    assert decision.run
    assert decision.why.startswith(f"{file} differs from ")


def test_a_module_that_was_deleted_or_renamed_differs(tree: Path) -> None:
    write(tree, "canary/gone.py")
    git(tree, "branch", "--force", "main", commit(tree))
    git(tree, "mv", "canary/gone.py", "canary/moved.py")
    assert decided(tree).why.startswith("canary/gone.py differs")


def test_the_base_is_a_commit_that_is_named_or_the_merge_base_with_main(tree: Path) -> None:
    merge_base = git(tree, "rev-parse", "main")
    write(tree, "canary/late.py")
    changed = commit(tree)
    write(tree, "docs/testing.md", "more\n")
    commit(tree)
    assert base_of(tree) == merge_base
    assert decided(tree).run
    assert not decided(tree, changed).run
    git(tree, "branch", "--move", "main", "trunk")
    assert base_of(tree) is None, "there is no main"
    git(tree, "update-ref", "refs/remotes/origin/main", merge_base)
    assert base_of(tree) == merge_base


def test_without_another_commit_to_compare_with_they_run(
    tree: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tree, "checkout", "--quiet", "main")
    assert decided(tree).run
    assert decided(tree).why == "there is no other commit to compare with"
    write(tree, "canary/pages.py")
    assert not decided(tree).run, "what is not committed is compared with it"
    monkeypatch.setenv("CI", "true")
    assert decided(tree).run, "a continuous build leaves files of its own"
    assert decided(tmp_path_factory.mktemp("without git")).run
    assert decided(tree, "no such commit").run


def test_they_run_where_they_are_named_on_the_command_line() -> None:
    assert named([f"{ROOT}/tests/simulation/test_kafka.py::test_it", "-x"])
    assert not named([f"{ROOT}/tests", "-m", "simulator"])


def test_what_the_simulator_imports_is_most_of_the_canary_and_not_its_command_line() -> None:
    found = imported(ROOT)
    assert {"simulation/life/life.py", "canary/runner/cluster/cluster.py", "storage/store/models.py"} <= found
    assert not {file for file in found if file.startswith(("canary/cli/", "dashboards/", "tests/api/"))}

"""Breaks a copy of the tree, mutation by mutation, and runs the tests there."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import hypothesis  # noqa: F401  # imported once, for all
import numpy as np  # noqa: F401
import orjson  # noqa: F401
import pytest

from tests.mutations.table_offline import OFFLINE
from tests.mutations.table_online import ONLINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutations.mutation import Mutation

ROOT = Path(__file__).parents[2]
LONGEST_S = 600
"""A mutation that hangs is noticed, too."""
_LEFT_OUT = shutil.ignore_patterns(".*", "var", "build", "dist", "__pycache__", "node_modules")


def main(arguments: Sequence[str]) -> int:
    """Try all mutations, or those that contain one of the texts; return how many no test noticed.

    With ``--quick`` only the first set of tests of each is run.
    """
    wanted, sets = [text for text in arguments if text != "--quick"], 1 if "--quick" in arguments else None
    table = [m for m in (*OFFLINE, *ONLINE) if not wanted or any(text in f"{m.file} {m.original}" for text in wanted)]
    survived = []
    with tempfile.TemporaryDirectory(prefix="canary-mutations-") as directory:
        tree = Path(directory) / "tree"
        shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)
        for tests in dict.fromkeys(tests for mutation in table for tests in mutation.tests[:sets]):
            noticed = failed(tree, tests)
            if noticed is not None:
                raise SystemExit(f"{noticed} fails with nothing broken")
        for number, mutation in enumerate(table, 1):
            begun = time.monotonic()
            noticed = tried(tree, mutation, sets)
            if not noticed:
                survived.append(mutation)
            verdict = f"killed by {noticed}" if noticed else "SURVIVED"
            sys.stdout.write(
                f"{number}/{len(table)} {mutation.file}: {shown(mutation.original)} -> {shown(mutation.mutated)}: "
                f"{verdict} ({time.monotonic() - begun:.0f} s)\n"
            )
            sys.stdout.flush()
    sys.stdout.write(f"{len(table) - len(survived)} of {len(table)} killed\n")
    return len(survived)


def shown(text: str) -> str:
    """Return the text on one line."""
    return " ".join(text.split())


def tried(tree: Path, mutation: Mutation, sets: int | None = None) -> str | None:
    """Break the tree, run the tests, mend it; return the first test that failed, None if none did.

    Raises:
        ValueError: the table does not fit the code any more.
    """
    path = tree / mutation.file
    text = path.read_text()
    if text.count(mutation.original) != 1:
        raise ValueError(f"{mutation.file}: {mutation.original!r} stands there {text.count(mutation.original)} times")
    path.write_text(text.replace(mutation.original, mutation.mutated))
    try:
        for tests in mutation.tests[:sets]:
            noticed = failed(tree, tests)
            if noticed is not None:
                return noticed
        return None
    finally:
        path.write_text(text)


def failed(tree: Path, tests: Sequence[str]) -> str | None:
    """Return what failed first, None if everything passed."""
    note = tree.parent / "first"
    note.unlink(missing_ok=True)
    child = os.fork()  # what does not change is imported already
    if child == 0:
        _run(tree, tests, note)
    for _ in range(10 * LONGEST_S):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "its running for ever"
    if status == 0:
        return None
    return note.read_text() if note.exists() else f"status {os.waitstatus_to_exitcode(status)}"


def _run(tree: Path, tests: Sequence[str], note: Path) -> NoReturn:
    """Run ``tests`` in ``tree``, note the first that fails, and end the process."""

    class First:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed and not note.exists():
                note.write_text(report.nodeid.split("::")[-1])

    status = 1
    try:
        os.chdir(tree)
        os.environ["CANARY_NO_SHRINKING"] = "1"
        for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "canary")]:
            del sys.modules[name]
        sys.path[:] = [str(tree), *(entry for entry in sys.path if Path(entry).resolve() != ROOT)]
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        options = ("-x", "-q", "-p", "no:cacheprovider", "--tb=no", "-W", "ignore::pytest.PytestAssertRewriteWarning")
        status = pytest.main([*options, *tests], plugins=[First()])
    except BaseException as error:  # noqa: BLE001  # a mutation may do anything, and this process must end here
        note.write_text(repr(error))
    finally:
        os._exit(status)

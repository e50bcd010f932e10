"""Breaks a copy of the tree, mutation by mutation, and runs the tests there."""

from __future__ import annotations

import argparse
import importlib
import os
import random
import resource
import secrets
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from simulation.edits import made
from tests.mutations.table_offline import OFFLINE
from tests.mutations.table_online import ONLINE
from tests.mutations.table_outside import OUTSIDE
from tests.mutations.table_topology import TOPOLOGY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulation.edits import Edit
    from tests.mutations.mutation import Mutation

ROOT = Path(__file__).parents[2]
TABLE: Sequence[Mutation] = (*OFFLINE, *ONLINE, *TOPOLOGY, *OUTSIDE)
LONGEST_S = 600
"""A mutation that hangs is noticed, too."""
_IMPORTED_ONCE = (
    "confluent_kafka",
    "hypothesis",
    "orjson",
    "pandas",
    "pyarrow.parquet",
    "pydantic",
    "rich",
    "structlog",
)
"""What tests need of others, imported before they are forked."""
_LEFT_OUT = shutil.ignore_patterns(".*", "var", "build", "dist", "__pycache__", "node_modules")


def main(arguments: Sequence[str]) -> int:
    """Try mutations as the arguments say; return 1 if no test noticed one of them, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("texts", nargs="*", help="only mutations whose file or words contain one of these")
    parser.add_argument("--quick", action="store_true", help="only the first set of tests of each")
    parser.add_argument("--sample", type=int, metavar="N", help="only N of them, drawn at random")
    parser.add_argument("--seed", type=int, help="draw those that a run with this seed drew (default: others)")
    options = parser.parse_args(arguments)
    sets = 1 if options.quick else None
    table = [m for m in TABLE if not options.texts or any(text in " ".join(m.edit) for text in options.texts)]
    if options.sample is not None:
        seed = secrets.randbelow(2**31) if options.seed is None else options.seed
        chance = random.Random(seed)  # noqa: S311  # to be repeated, not to be secret
        table = chance.sample(table, min(options.sample, len(table)))
        sys.stdout.write(f"{len(table)} of {len(TABLE)}: repeat them with --sample {options.sample} --seed {seed}\n")
    for name in _IMPORTED_ONCE:
        importlib.import_module(name)
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
                f"{number}/{len(table)} {shown(mutation.edit)}: {verdict} ({time.monotonic() - begun:.0f} s)\n"
            )
            sys.stdout.flush()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = spent.ru_utime + spent.ru_stime
    sys.stdout.write(f"{len(table) - len(survived)} of {len(table)} killed in {cpu_s:.0f} s of CPU\n")
    return min(len(survived), 1)


def shown(edit: Edit) -> str:
    """Return the edit on one line."""
    place = f"{edit.file}: {edit.scope}" if edit.scope else edit.file
    original, replacement = (" ".join(text.split()) for text in (edit.original, edit.replacement))
    return f"{place}: {original} -> {replacement}"


def tried(tree: Path, mutation: Mutation, sets: int | None = None) -> str | None:
    """Break the tree, run the tests, mend it; return the first test that failed, None if none did.

    Raises:
        ValueError: the table does not fit the code any more.
    """
    with made(tree, [mutation.edit]):
        for tests in mutation.tests[:sets]:
            noticed = failed(tree, tests)
            if noticed is not None:
                return noticed
    return None


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
        for name in [
            name
            for name in sys.modules
            if name.split(".")[0] in ("tests", "simulation", "canary", "storage", "spark_reconcile")
        ]:
            del sys.modules[name]
        sys.path[:] = [str(tree), *(entry for entry in sys.path if Path(entry).resolve() != ROOT)]
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        # What notices a mutation is no matter of chance; the plugin that no test here uses takes half a second to load.
        options = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "--tb=no", "--seed", "0",
                   "-W", "ignore::pytest.PytestAssertRewriteWarning")  # fmt: skip
        status = pytest.main([*options, *tests], plugins=[First()])
    except BaseException as error:  # noqa: BLE001  # a mutation may do anything, and this process must end here
        note.write_text(repr(error))
    finally:
        os._exit(status)

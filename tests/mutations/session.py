"""Tests run in a copy of the tree: collected once, and forked for each edit."""

from __future__ import annotations

import importlib
import json
import os
import select
import shutil
import signal
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import pytest

from simulation.search.edits import made
from tests.mutations import functions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simulation.search.edits import Edit

ROOT = Path(__file__).parents[2]
LONGEST_S = 1200
"""An import, or a run, that has no end is a failure, too."""
HANGS_S = 100
"""So is an item that has none: those that are tried take some seconds."""
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
_PACKAGES = ("tests", "simulation", "api", "canary", "canary_receipts", "dashboards", "spark_reconcile", "storage")
_LEFT_OUT = shutil.ignore_patterns(".*", "var", "build", "dist", "node_modules")


class Outcome(NamedTuple):
    """What failed (items and modules by their ids, or what ended the run), and the CPU seconds of each item.

    ``fits`` is False if nothing was run, because what is edited has to be imported again.
    """

    failed: Sequence[str]
    cpu_s: Mapping[str, float]
    wall_s: float = 0.0
    fits: bool = True

    def then(self, other: Outcome) -> Outcome:
        """Return what came of both."""
        failed = list(dict.fromkeys([*self.failed, *other.failed]))
        return Outcome(failed, {**self.cpu_s, **other.cpu_s}, self.wall_s + other.wall_s)


NOTHING = Outcome([], {})


def copied(directory: Path) -> Path:
    """Return a copy of the tree, made in a directory."""
    for name in _IMPORTED_ONCE:
        importlib.import_module(name)
    return Path(shutil.copytree(ROOT, directory / "tree", ignore=_LEFT_OUT))


def whole(tree: Path, tests: Sequence[str]) -> Outcome:
    """Run tests with nothing broken, and keep what Python compiles for later runs."""
    return next(_outcomes(tree, tests, [None], first=False, compiled=True))


def outcomes(tree: Path, tests: Sequence[str], edits: Sequence[Edit], *, first: bool) -> Iterator[tuple[Edit, Outcome]]:
    """Yield what fails with each edit alone, as it comes; with ``first`` a run ends with the first that fails.

    The tests are collected once: an edit is put into the functions that were imported. Where it changes what ran at the
    import, or nothing fails, everything is imported again.

    Raises:
        ValueError: an edit does not fit the code any more.
    """
    again = []
    for edit, outcome in zip(edits, _outcomes(tree, tests, edits, first=first), strict=True):
        if outcome.fits and outcome.failed:
            yield edit, outcome
        else:
            again.append((edit, outcome.wall_s))  # later: that process reads the files of the tree, too
    for edit, before_s in again:
        with made(tree, [edit]):
            outcome = next(_outcomes(tree, tests, [None], first=first))
        yield edit, outcome._replace(wall_s=before_s + outcome.wall_s)


def _outcomes(
    tree: Path, tests: Sequence[str], edits: Sequence[Edit | None], *, first: bool, compiled: bool = False
) -> Iterator[Outcome]:
    before = {path: path.read_text() for path in {tree / edit.file for edit in edits if edit is not None}}
    reading, writing = os.pipe()
    begun = time.monotonic()
    child = os.fork()  # what does not change is imported already
    if child == 0:
        os.close(reading)
        _collect(tree, tests, _Runs(tree, edits, writing), first=first, compiled=compiled)
    os.close(writing)
    said = b""
    try:
        for _ in edits:
            while b"\n" not in said:
                if not select.select([reading], [], [], LONGEST_S)[0]:
                    said += json.dumps(Outcome(["its import for ever"], {})).encode() + b"\n"
                elif chunk := os.read(reading, 1 << 16):
                    said += chunk
                else:
                    said += json.dumps(Outcome(["the end of its process"], {})).encode() + b"\n"
            line, _, said = said.partition(b"\n")
            outcome, begun, now = Outcome(*json.loads(line)), time.monotonic(), begun
            yield outcome._replace(wall_s=begun - now)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for path, text in before.items():
            if path.read_text() != text:  # a run did not end by itself
                path.write_text(text)


class _Runs:
    """A plugin that forks the collected session for each edit, and writes what happened there into a pipe."""

    def __init__(self, tree: Path, edits: Sequence[Edit | None], pipe: int) -> None:
        self.broken: list[str] = []
        self._tree, self._edits, self._pipe = tree, edits, pipe
        self._note = tree.parent / f"note-{os.getpid()}"
        self._forked: ExitStack | None = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note what cannot be imported."""
        if report.failed:
            self.broken.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> bool | None:
        """Fork for each edit; in a fork, go on."""
        live = functions.live() if self._edits != [None] else {}
        for edit in self._edits:
            with ExitStack() as stack:
                codes = functions.replaced(self._tree, edit, live) if edit is not None else []
                if codes is None:
                    self.write(Outcome([], {}, fits=False))
                    continue
                if edit is not None:
                    stack.enter_context(made(self._tree, [edit]))  # for processes that tests start
                self._note.unlink(missing_ok=True)
                child = os.fork()
                if child == 0:
                    self._forked = stack.pop_all()  # kept: a fork leaves the files as they are
                    for function, code in codes:
                        function.__code__ = code
                    return None
                outcome = self._outcome(child)
            self.write(outcome)
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note that an item begins, and what it cost."""
        self._add("begun", item.nodeid)
        before = sum(os.times()[:4])
        result = yield
        self._add("ended", item.nodeid, sum(os.times()[:4]) - before)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what fails."""
        if report.failed:
            self._add("failed", report.nodeid)

    def end(self, status: int) -> NoReturn:
        """End this process; where tests could not be collected, say so."""
        if self._forked is None and (self.broken or status):
            for _ in self._edits:
                self.write(Outcome(self.broken or [f"status {status}"], {}))
        os._exit(status)

    def write(self, outcome: Outcome) -> None:
        """Say what came of the next edit."""
        os.write(self._pipe, json.dumps(outcome).encode() + b"\n")

    def _add(self, *words: object) -> None:
        with self._note.open("a") as file:
            file.write(json.dumps(words) + "\n")

    def _outcome(self, child: int) -> Outcome:
        status = _waited(child, self._note)
        lines = [json.loads(line) for line in self._note.read_text().splitlines()] if self._note.exists() else []
        failed = [*self.broken, *(line[1] for line in lines if line[0] == "failed")]
        if lines and lines[-1][0] == "begun":
            failed.append(lines[-1][1])  # it hangs, or ended the process
        if status and not failed:
            failed.append(f"status {status}")
        return Outcome(list(dict.fromkeys(failed)), {line[1]: line[2] for line in lines if line[0] == "ended"})


def _waited(child: int, note: Path) -> int:
    """Return a process's status, once it ended, or noted nothing for too long."""
    begun = since = time.monotonic()
    noted = 0
    while time.monotonic() - since < HANGS_S and time.monotonic() - begun < LONGEST_S / 2:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if note.exists() and note.stat().st_size > noted:
            noted, since = note.stat().st_size, time.monotonic()
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _collect(tree: Path, tests: Sequence[str], runs: _Runs, *, first: bool, compiled: bool) -> NoReturn:
    """Run ``tests`` in ``tree`` with the plugin, and end the process."""
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.chdir(tree)
        os.environ["CANARY_NO_SHRINKING"] = "1"
        if not compiled:
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # files change within a second
        sys.dont_write_bytecode = not compiled
        for name in [name for name in sys.modules if name.split(".")[0] in _PACKAGES]:
            del sys.modules[name]
        sys.path[:] = [str(tree), *(entry for entry in sys.path if Path(entry).resolve() != ROOT)]
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        # What notices a mutation is no matter of chance; the plugin that no test here uses takes half a second to load.
        options = ("-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "--tb=no", "--seed", "0",
                   "-W", "ignore::pytest.PytestAssertRewriteWarning")  # fmt: skip
        end = "-x" if first else "--continue-on-collection-errors"
        status = pytest.main([end, *options, *tests], plugins=[runs])
    except BaseException as error:  # noqa: BLE001  # a mutation may do anything, and this process must end here
        runs.broken.append(repr(error))
    finally:
        runs.end(status)

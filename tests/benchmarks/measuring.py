"""What processes take and hold, and the one shape in which every benchmark tells it.

A benchmark is a module of this package with a function ``measure``, whose keyword parameters are its sizes, and which
yields figures. ``command(measure)`` at its end makes it a program; ``python -m tests.benchmarks`` runs them all.
"""

from __future__ import annotations

import inspect
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

ROOT = Path(__file__).parents[2]
METERED = Path(__file__).parent / "metered.py"
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured, and its bounds: without any it is only told.

    ``value`` is the median of ``rounds``, if there was more than one.
    """

    subject: str
    what: str
    value: float
    unit: str = ""
    most: float | None = None
    least: float | None = None
    rounds: Sequence[float] = ()

    @property
    def ok(self) -> bool:
        """Whether it is within its bounds."""
        return (self.most is None or self.value <= self.most) and (self.least is None or self.value >= self.least)

    @classmethod
    def of(cls, subject: str, what: str, rounds: Iterable[float], unit: str = "", **bounds: float | None) -> Figure:
        """Return the median of some rounds."""
        values = tuple(rounds)
        return cls(subject, what, statistics.median(values), unit, rounds=values, **bounds)

    def __str__(self) -> str:
        """Return a row of a table in Markdown."""
        spread = ""
        if len(self.rounds) > 1:
            spread = f"{number(min(self.rounds))} to {number(max(self.rounds))} ({len(self.rounds)})"
        given = (("at most", self.most), ("at least", self.least))
        bounds = [f"{words} {number(bound)}" for words, bound in given if bound is not None]
        verdict = ("yes" if self.ok else "**missed**") if bounds else ""
        value = f"{number(self.value)} {self.unit}".strip()
        return row(self.subject, self.what, value, spread, ", ".join(bounds), verdict)


def row(*cells: str) -> str:
    """Return a row of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


HEAD = f"{row('subject', 'what', 'figure', 'spread (rounds)', 'limit', 'met')}\n|{'---|' * 6}"


def same(subject: str, what: str, *answers: object) -> Figure:
    """Return whether all answers are equal, as a figure: how many differ from the first."""
    return Figure(subject, what, sum(answer != answers[0] for answer in answers), "differences", most=0)


def number(value: float) -> str:
    """Return a number with the three digits that count.

    >>> number(0.01234), number(4.2), number(1234567.0), number(3)
    ('0.0123', '4.20', '1,234,567', '3')
    """
    return f"{value:,.0f}" if abs(value) >= 99.95 or isinstance(value, int) else f"{value:#.3g}"


def command(measure: Callable[..., Iterable[Figure]]) -> None:
    """Make a benchmark a program: its sizes are options, it prints a table, and exits 1 if a bound is missed."""

    def main(**sizes: Any) -> None:
        missed = False
        typer.echo(HEAD)
        for figure in measure(**sizes):
            typer.echo(str(figure))
            missed |= not figure.ok
        raise typer.Exit(int(missed))

    given = inspect.signature(measure).parameters.values()
    options = [one.replace(annotation=type(one.default), kind=one.KEYWORD_ONLY) for one in given]
    main.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # inspect reads it
    main.__annotations__ = {one.name: one.annotation for one in options}
    main.__doc__ = sys.modules[measure.__module__].__doc__
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds of a command and of all that it started, most bytes held (PSS, sampled) by role, wall seconds."""

    cpu: float
    seconds: float
    peaks: Mapping[str, int]

    @property
    def peak(self) -> int:
        """The most bytes that all of it held."""
        return self.peaks["all"]


def role(process: psutil.Process) -> str:
    """Return which part of a Spark application a process is."""
    if "java" in process.name():
        return "jvm"
    return "workers" if any("pyspark" in word for word in process.cmdline()) else "driver"


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all that it started, as far as they live."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def held(processes: Iterable[psutil.Process]) -> Counter[str]:
    """Return the bytes that processes hold, by role and of all; a page that several map is divided among them."""
    sizes: Counter[str] = Counter()
    for one in processes:
        with suppress(psutil.Error):
            size = one.memory_full_info().pss
            sizes[role(one)] += size
            sizes["all"] += size
    return sizes


def cpu_s(processes: Iterable[psutil.Process]) -> float:
    """Return the CPU seconds of processes, and of those that they started and waited for."""
    total = 0.0
    for one in processes:
        with suppress(psutil.Error):
            total += sum(one.cpu_times()[:4])
    return total


def metered(command: Sequence[str | Path], file: Path) -> list[str | Path]:
    """Return a command that runs this one, and leaves in a file what it and all that it started took."""
    return [sys.executable, "-I", "-S", METERED, file, *command]


def run(command: Sequence[str | Path]) -> tuple[Any, Usage]:
    """Run a Python module; return what it prints as JSON on its last line, and what it took."""
    out, usage = output(command)
    return json.loads(out.strip().splitlines()[-1]), usage


def output(command: Sequence[str | Path], statuses: Collection[int] = (0,)) -> tuple[bytes, Usage]:
    """Run a Python module; return all that it prints, and what it took with all that it started.

    CPU is the kernel's account of everything that has ended, however shortly it lived; memory is sampled.
    """
    peaks: Counter[str] = Counter()
    done = threading.Event()
    with tempfile.TemporaryDirectory() as directory:
        account = Path(directory) / "account"
        whole = metered([sys.executable, *command], account)
        began = time.monotonic()
        with subprocess.Popen(whole, cwd=ROOT, stdout=subprocess.PIPE) as process:

            def sample() -> None:
                nonlocal peaks
                while not done.wait(0.2):
                    with suppress(psutil.Error):
                        peaks |= held(family(process.pid)[1:])

            sampler = threading.Thread(target=sample)
            sampler.start()
            out, _ = process.communicate()
            seconds = time.monotonic() - began
            done.set()
            sampler.join()
        if process.returncode not in statuses:
            raise SystemExit(f"{command} ended with status {process.returncode}")
        cpu = float(account.read_text().split()[0])
    return out, Usage(cpu, seconds, peaks)

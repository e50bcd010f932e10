"""Run every benchmark, and exit 1 if an answer differs or a bound is missed: ``python -m tests.benchmarks [NAME...]``.

A benchmark is a module of this package with a function ``measure``. Each runs in a process of its own, one after the
other. With ``--write``, docs/costs.md gets the figures; those of benchmarks that did not run now stay in it, if they
are of the same machine and versions.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import psutil
import typer
from confluent_kafka import libversion

from canary.lab.jars.pinned_jars import DEFAULT_VERSION
from tests.benchmarks.measuring import HEAD, ROOT, row

COSTS = ROOT / "docs" / "costs.md"
TEXT = """# Costs

Written by `make bench WRITE=--write`. Each row is a figure of one benchmark in `tests/benchmarks`, with its limit if it
has one. What is compared ran in turn in one run on one machine: ratios hold elsewhere, CPU-seconds do not. CPU is that
of whole process trees as the kernel accounts for it, without the brokers, unless the row says otherwise; memory is PSS
(a page that several processes share is divided among them). A figure of several rounds is their median, beside the
least and the greatest. kminion (github.com/redpanda-data/kminion, built from source) takes part where KMINION or the
PATH leads to it.

What a detection still waits for: 0.3 s between two answers with the same topic id, because a broker that was just
resumed answers with old metadata for about 0.1 s, and two such answers would confirm a loss in a deleted topic; up to
0.5 s until a client connects again to a broker that is back, because more attempts cost sockets and log-ins throughout
an outage; up to 0.5 s until an ordinary record is folded, because a thread that wakes for each one costs more than all
else; and an end of the log that a former leader may list is looked at ten times, 0.9 s apart.

"""


def machine() -> str:
    """Return what this machine is and what runs on it, in a line."""
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    parts = (
        f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores",
        f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        f"Linux {platform.release().partition('-')[0]}",  # who built it is another one each time
        f"Python {platform.python_version()}",
        f"Kafka {DEFAULT_VERSION}",
        f"librdkafka {libversion()[0]}",
        *(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "duckdb", "orjson")),
    )
    return f"Machine: {', '.join(parts)}."


def found() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted(
        one.stem for one in Path(__file__).parent.glob("*.py") if "\ndef measure(" in one.read_text(encoding="utf-8")
    )


def ran(name: str, rounds: int) -> tuple[list[str], bool]:
    """Run a benchmark, and show what it says; return the rows of its table, and whether all is well."""
    rows = []
    command = [sys.executable, "-m", f"tests.benchmarks.{name}"]
    if rounds and "rounds: int" in (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8"):
        command += ["--rounds", str(rounds)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in map(str.rstrip, process.stdout):
            if line.startswith("| ") and line not in HEAD:
                rows.append(f"| {name} {line}")
                typer.echo(rows[-1])
    if process.returncode not in (0, 1) or not rows:
        rows.append(row(name, "", f"ended with status {process.returncode}", "", "", "**missed**"))
        typer.echo(rows[-1])
    return rows, process.returncode == 0


def kept(but: str, here: str) -> dict[str, list[str]]:
    """Return the rows of other benchmarks that are in docs/costs.md, if they are of this machine."""
    old = COSTS.read_text(encoding="utf-8") if COSTS.exists() else ""
    rows: dict[str, list[str]] = {}
    for line in old.splitlines() if here in old else ():
        name = line.removeprefix("| ").partition(" ")[0]
        if line.startswith("| ") and name in found() and name != but:
            rows.setdefault(name, []).append(line)
    return rows


def main(
    named: Annotated[list[str] | None, typer.Argument(help="Which.")] = None, *, rounds: int = 0, write: bool = False
) -> None:
    """Run those named, or all; 0 rounds: as many as each has of itself."""
    names = named or found()
    if unknown := set(names) - set(found()):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}; there are {', '.join(found())}")
    here = machine()
    head = "\n".join(f"| benchmark {line}" if line.startswith("| ") else f"|---{line}" for line in HEAD.splitlines())
    typer.echo(f"{here}\n\n{head}")
    well = True
    for name in names:
        rows, good = ran(name, rounds)
        well &= good
        if write:  # what was measured in an hour is not lost in the next
            told = kept(name, here) | {name: rows}
            table = "\n".join(line for one in sorted(told) for line in told[one])
            COSTS.write_text(f"{TEXT}{here}\n\n{head}\n{table}\n", encoding="utf-8")
    raise typer.Exit(int(not well))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()

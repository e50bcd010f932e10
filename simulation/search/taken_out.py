"""``python -m simulation.search.taken_out``: the simulation finds each mended defect, once its mend is taken out.

It takes a mend out of a copy of the tree, searches there for a life that goes wrong, and lives the same seed again in
the whole tree.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from simulation.search.edits import made
from simulation.search.mends import TAKEN_OUT, Mend

ROOT: Final = Path(__file__).parents[2]
_COPIED: Final = ("api", "canary", "pyproject.toml", "simulation", "spark_reconcile", "storage")
_HANGS: Final = 4
"""A search that takes so many times its CPU seconds, plus a minute, in s, is ended: a life in it never ends."""


class Verdict(NamedTuple):
    """What a search said. ``wrong`` is the first thing that went wrong with ``seed``, None if nothing did."""

    wrong: str | None
    seed: int | None = None
    cpu_s: float = 0.0


def heard(said: str) -> Verdict:
    r"""Return the verdict in what ``python -m simulation`` printed.

    >>> heard("seed 7: 0.400 h at 5 s\n      12.0 s  kill for 3.0 s\n  MISSED: offset 4\n")
    Verdict(wrong='MISSED: offset 4', seed=7, cpu_s=0.0)
    """
    seed = re.search(r"^seed (\d+):", said, re.MULTILINE)
    wrong = re.search(r"^  ([A-Z ]+: .*)$", said[seed.end() :], re.MULTILINE) if seed else None
    return Verdict(wrong[1], int(seed[1])) if seed and wrong else Verdict(None)


def searched(tree: Path, cpu_seconds: float, *arguments: str) -> Verdict:
    """Run ``python -m simulation`` in ``tree``, and return its verdict.

    Raises:
        RuntimeError: it failed, or a life in it never ended.
    """
    before = _children_s()
    command = (sys.executable, "-m", "simulation", *arguments)
    quiet = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}  # files change within a second
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tree, env=quiet, start_new_session=True, **streams) as child:  # noqa: S603  # ours
        try:
            said, errors = child.communicate(timeout=_HANGS * cpu_seconds + 60)
        except subprocess.TimeoutExpired as late:
            raise RuntimeError("a life never ended") from late
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
    verdict = heard(said)._replace(cpu_s=_children_s() - before)
    if child.returncode != (verdict.wrong is not None):
        raise RuntimeError(f"status {child.returncode}: {(errors or said).strip()[-2000:]}")
    return verdict


def _children_s() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def shown(mend: Mend, tree: Path, first: int, cpu_seconds: float, scale: Sequence[str]) -> Verdict:
    """Search for a life that goes wrong without the mend, and right with it.

    Seeds that go wrong with the mend, too, show nothing, and the search goes on behind them. ``scale`` are arguments
    that say how long and how coarse lives are.
    """
    spent = 0.0
    while spent < cpu_seconds:
        left = cpu_seconds - spent
        limits = ("--first", str(first), "--cpu-seconds", f"{left:.0f}", "--until-wrong", "--no-shrink")
        with made(tree, mend.edits):
            verdict = searched(tree, left, *limits, *scale)
        spent += verdict.cpu_s
        if verdict.seed is None or searched(tree, left, "--seed", str(verdict.seed), *scale).wrong is None:
            return verdict._replace(cpu_s=spent)
        print(f"{mend.name}: seed {verdict.seed} goes wrong in the whole tree, too: {verdict.wrong}", flush=True)
        first = verdict.seed + 1
    return Verdict(None, None, spent)


def main(arguments: Sequence[str] | None = None) -> int:
    """Take out each mend; return 1 if the simulation did not find the defect of one of them, else 0."""
    parser = argparse.ArgumentParser(prog="python -m simulation.search.taken_out", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, by name or item (default: all)")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="the first life's seed")
    parser.add_argument("--cpu-seconds", type=float, default=600.0, metavar="S", help="for each of them")
    parser.add_argument("--hours", default="0.4", help="virtual hours of each life")
    parser.add_argument("--grain", default="5", help="s between probes")
    parser.add_argument("--pace", default="10", help="a harm in so many intervals, on average")
    parser.add_argument("--jobs", default="1", help="processes of a search")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which ends a search, too
    known = {name for mend in TAKEN_OUT for name in (mend.name, mend.item)}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no mend is called {', '.join(unknown)}; there are {', '.join(m.name for m in TAKEN_OUT)}")
    wanted = [m for m in TAKEN_OUT if not options.names or {m.name, m.item} & set(options.names)]
    scale = ("--hours", options.hours, "--grain", options.grain, "--pace", options.pace, "--jobs", options.jobs)
    found = 0
    with tempfile.TemporaryDirectory(prefix="canary-taken-out-") as directory:
        tree = Path(directory)
        for name in _COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, tree / name)
        for mend in wanted:
            try:
                verdict = shown(mend, tree, options.first, options.cpu_seconds, scale)
            except RuntimeError as error:
                print(f"{mend.item} {mend.name}: NO VERDICT: {error}", flush=True)
                continue
            found += verdict.wrong is not None
            how = "NOT FOUND" if verdict.wrong is None else f"found by seed {verdict.seed}: {verdict.wrong}"
            print(f"{mend.item} {mend.name}: {how} ({verdict.cpu_s:.0f} CPU-s)", flush=True)
    print(f"{found} of {len(wanted)} found")
    return int(found < len(wanted))


if __name__ == "__main__":
    sys.exit(main())

"""Breaks a copy of the tree, mutation by mutation, and runs the tests there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutations.table_offline import OFFLINE
from tests.mutations.table_online import ONLINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutations.mutation import Mutation

ROOT = Path(__file__).parents[2]
LONGEST_S = 600
"""A mutation that hangs is noticed, too."""
ENVIRONMENT = {**os.environ, "CANARY_NO_SHRINKING": "1"}
_LEFT_OUT = shutil.ignore_patterns(".*", "var", "build", "dist", "__pycache__", "node_modules")


def main(wanted: Sequence[str]) -> int:
    """Try all mutations, or those that contain one of ``wanted``; return how many no test noticed."""
    table = [m for m in (*OFFLINE, *ONLINE) if not wanted or any(text in f"{m.file} {m.original}" for text in wanted)]
    survived = []
    with tempfile.TemporaryDirectory(prefix="canary-mutations-") as directory:
        tree = Path(directory) / "tree"
        shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)
        for number, mutation in enumerate(table, 1):
            begun = time.monotonic()
            noticed = tried(tree, mutation)
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


def tried(tree: Path, mutation: Mutation) -> str | None:
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
        for tests in mutation.tests:
            noticed = failed(tree, tests)
            if noticed is not None:
                return noticed
        return None
    finally:
        path.write_text(text)


def failed(tree: Path, tests: Sequence[str]) -> str | None:
    """Return what failed first, None if everything passed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "--tb=no", *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, capture_output=True, text=True, timeout=LONGEST_S, env=ENVIRONMENT, check=False
        )
    except subprocess.TimeoutExpired:
        return "its running for ever"
    if done.returncode == 0:
        return None
    found = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return found[0].split(" - ")[0].split("::")[-1] if found else f"status {done.returncode}"

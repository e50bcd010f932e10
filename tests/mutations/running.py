"""Breaks a copy of the tree, mutation by mutation, and runs the tests there."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import resource
import secrets
import signal
import sys
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tests.mutations import matrix, session
from tests.mutations.table_offline import OFFLINE
from tests.mutations.table_online import ONLINE
from tests.mutations.table_outside import OUTSIDE
from tests.mutations.table_topology import TOPOLOGY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.queues import SimpleQueue
    from multiprocessing.sharedctypes import Synchronized

    from tests.mutations.mutation import Mutation
    from tests.mutations.session import Outcome

Result = TypeVar("Result")
TABLE: Sequence[Mutation] = (*OFFLINE, *ONLINE, *TOPOLOGY, *OUTSIDE)
_TOGETHER = 16
"""So many mutations share one collection of their tests, which costs seconds."""


def main(arguments: Sequence[str]) -> int:
    """Try mutations as the arguments say; return 1 if no test noticed one of them, else 0."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which ends what was started, too
    if options.spare:
        sys.stdout.write(matrix.report(options.spare.read_text().splitlines()))
        return 0
    table = [m for m in TABLE if not options.texts or any(text in " ".join(m.edit) for text in options.texts)]
    table = [m for m in table if m.chosen(options.sets)]
    if options.sample is not None:
        seed = secrets.randbelow(2**31) if options.seed is None else options.seed
        chance = random.Random(seed)  # noqa: S311  # to be repeated, not to be secret
        table = chance.sample(table, min(options.sample, len(table)))
        sys.stdout.write(f"{len(table)} of {len(TABLE)}: repeat them with --sample {options.sample} --seed {seed}\n")
    groups = defaultdict(list)
    for mutation in table:
        groups[mutation.chosen(options.sets)].append(mutation)
    first = options.matrix is None
    tries = [
        partial(tried, tests, mutations[start : start + _TOGETHER], first=first)
        for tests, mutations in groups.items()
        for start in range(0, len(mutations), _TOGETHER)
    ]
    killed = 0
    with (
        tempfile.TemporaryDirectory(prefix="canary-mutations-") as directory,
        (options.matrix or Path(os.devnull)).open("w") as lines,
    ):
        trees = [session.copied(Path(directory) / str(n)) for n in range(options.jobs)]
        wholes = [partial(_whole, tests) for tests in dict.fromkeys(tests for group in groups for tests in group)]
        for tests, outcome in _results(trees, wholes):
            if outcome.failed:
                raise SystemExit(f"{outcome.failed[0]} of {' '.join(tests)} fails with nothing broken")
            lines.write(matrix.costs(outcome.cpu_s))
        for number, (mutation, outcome) in enumerate(_results(trees, tries), 1):
            killed += bool(outcome.failed)
            lines.write(matrix.kills(mutation.edit, outcome.failed))
            lines.flush()
            sys.stdout.write(f"{number}/{len(table)} {_shown(mutation, outcome)} ({outcome.wall_s:.0f} s)\n")
            sys.stdout.flush()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = spent.ru_utime + spent.ru_stime
    sys.stdout.write(f"{killed} of {len(table)} killed in {cpu_s:.0f} s of CPU\n")
    return int(killed < len(table))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("texts", nargs="*", help="only mutations whose file or words contain one of these")
    parser.add_argument("--quick", action="store_true", help="only the first set of tests of each (--sets 1)")
    parser.add_argument("--sets", metavar="N[,N]", help="only these sets of tests of each, from 1 (default: all)")
    parser.add_argument("--sample", type=int, metavar="N", help="only N of them, drawn at random")
    parser.add_argument("--seed", type=int, help="draw those that a run with this seed drew (default: others)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes, each with a copy of the tree")
    parser.add_argument("--matrix", type=Path, metavar="FILE", help="write all that fails (--sets 1 if not said)")
    parser.add_argument("--spare", type=Path, metavar="FILE", help="print which items a matrix shows to be spare")
    options = parser.parse_args(arguments)
    if options.sets is not None:
        options.sets = [int(number) for number in options.sets.split(",")]
    elif options.quick or options.matrix:
        options.sets = [1]
    return options


def _shown(mutation: Mutation, outcome: Outcome) -> str:
    edit = mutation.edit
    place = f"{edit.file}: {edit.scope}" if edit.scope else edit.file
    original, replacement = (" ".join(text.split()) for text in (edit.original, edit.replacement))
    more = f" and {len(outcome.failed) - 1} more" if len(outcome.failed) > 1 else ""
    verdict = f"killed by {outcome.failed[0].split('::')[-1]}{more}" if outcome.failed else "SURVIVED"
    return f"{place}: {original} -> {replacement}: {verdict}"


def tried(
    sets: Sequence[Sequence[str]], mutations: Iterable[Mutation], tree: Path, *, first: bool
) -> Iterator[tuple[Mutation, Outcome]]:
    """Yield each mutation with what fails: with ``first`` one item, else all of all sets.

    Raises:
        ValueError: the table does not fit the code any more.
    """
    mutation_of = {mutation.edit: mutation for mutation in mutations}
    known = dict.fromkeys(mutation_of, session.NOTHING)
    for tests in sets:
        for edit, outcome in session.outcomes(tree, tests, list(known), first=first) if known else ():
            known[edit] = known[edit].then(outcome)
            if first and outcome.failed:
                yield mutation_of[edit], known.pop(edit)
    yield from ((mutation_of[edit], outcome) for edit, outcome in known.items())


def _whole(tests: Sequence[str], tree: Path) -> Iterator[tuple[Sequence[str], Outcome]]:
    yield tests, session.whole(tree, tests)


def _results(trees: Sequence[Path], tasks: Sequence[Callable[[Path], Iterator[Result]]]) -> Iterator[Result]:
    """Yield what the tasks yield, as it comes; a process for each tree, this one if there is one only."""
    if len(trees) == 1:
        for task in tasks:
            yield from task(trees[0])
        return
    forked = multiprocessing.get_context("fork")
    results: SimpleQueue[Result | BaseException | None] = forked.SimpleQueue()
    turn = forked.Value("i", 0)
    workers = [forked.Process(target=_work, args=(tree, tasks, turn, results)) for tree in trees]
    for worker in workers:
        worker.start()
    try:
        working = len(workers)
        while working:
            result = results.get()
            if isinstance(result, BaseException):
                raise result
            if result is None:
                working -= 1
            else:
                yield result
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _work(
    tree: Path,
    tasks: Sequence[Callable[[Path], Iterator[Result]]],
    turn: Synchronized[int],
    results: SimpleQueue[Result | BaseException | None],
) -> None:
    try:
        while True:
            with turn.get_lock():
                number, turn.value = turn.value, turn.value + 1
            if number >= len(tasks):
                break
            for result in tasks[number](tree):
                results.put(result)
    except Exception as error:  # noqa: BLE001  # whatever it is, it ends the run
        results.put(error)
    else:
        results.put(None)

"""Real processes that cost little: forked from one that has imported what they need."""

from __future__ import annotations

import multiprocessing
import sys
from threading import BrokenBarrierError
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", "hypothesis", "alembic.autogenerate", "storage.store", "storage.ledger"])
_PATIENCE_S = 120
_LATE = 75
"""The exit status of a process that waited in vain for the others to begin."""


def begun(work: Callable[..., None], *arguments: Any) -> tuple[ForkServerProcess, Connection]:
    """Start ``work`` in a process of its own, with a connection by which it says what it has to say.

    Args:
        work: a function of a module, which the process imports; it is given the connection first.
        *arguments: what else it is given.
    """
    heard, said = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=work, args=(said, *arguments))
    process.start()
    said.close()  # the process alone has it: its end is the end of what is heard
    return process, heard


def until_the_end(heard: Connection) -> Iterator[Any]:
    """Yield what a process says from here on, until it ends."""
    try:
        while True:
            yield heard.recv()
    except EOFError:
        return


def at_once(work: Callable[..., Any], *arguments: Any, count: int = 2) -> list[Any]:
    """Run ``work`` in several processes, all of which begin together; return what each returned.

    Raises:
        NotInTimeError: one did not begin, or end, in time.
    """
    from tests.support.waiting import in_time, joined  # noqa: PLC0415  # each process would load it, too

    gate = FORKS.Barrier(count)
    running = [begun(_answer, gate, work, arguments) for _ in range(count)]
    answers = [answer for _, heard in running for answer in until_the_end(heard)]
    for process, _ in running:
        joined(process, _PATIENCE_S)
    statuses = [process.exitcode for process, _ in running]
    in_time(_LATE not in statuses, "the beginning of all processes")
    assert statuses == [0] * count
    return answers


def _answer(said: Connection, gate: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        gate.wait(_PATIENCE_S)
    except BrokenBarrierError:
        sys.exit(_LATE)
    said.send(work(*arguments))

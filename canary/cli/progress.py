"""Progress of slow steps: a bar on a terminal, a line each few seconds elsewhere; always on stderr."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

import structlog

_EVERY_S: Final = 5.0

_log = structlog.get_logger(__name__)


@contextlib.contextmanager
def shown(*, terminal: bool | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows a step: (what, steps done, steps in all). ``terminal``: None asks stderr."""
    if not (sys.stderr.isatty() if terminal is None else terminal):
        yield _lines()
        return
    from rich.console import Console  # noqa: PLC0415  # only for a terminal
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True)) as bar:

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report


def _lines() -> Callable[[str, int, int], None]:
    last: tuple[str, float] = ("", 0.0)
    ended: set[str] = set()

    def report(what: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if (what != last[0] or now - last[1] >= _EVERY_S or done >= total) and what not in ended:
            last = (what, now)
            _log.info("step", what=what, done=done, of=total)
            if done >= total:
                ended.add(what)

    return report

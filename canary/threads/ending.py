"""SIGTERM for commands that work in their main thread."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block like Ctrl-C, so that what it has begun is stopped, and half files are removed."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

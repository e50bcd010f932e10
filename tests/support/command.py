"""The command line in the tests' own process: a hundred times as quick as one of its own, and nothing of it stays."""

from __future__ import annotations

import contextvars
import io
import logging as std_logging
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

import structlog

from canary.cli import logging, main

if TYPE_CHECKING:
    from collections.abc import Iterator


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


def canary(*words: object, stdin: bytes = b"") -> Ended:
    """Run ``canary WORDS`` up to its exit status."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    given = patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    with logging_as_before(), given, redirect_stdout(out), redirect_stderr(err):
        try:
            contextvars.copy_context().run(main, [str(word) for word in words])
        except SystemExit as ended:
            status = int(ended.code or 0)
        out.flush()
        err.flush()
    return Ended(status, out.buffer.getvalue().decode(), err.buffer.getvalue().decode())


@contextmanager
def logging_as_before() -> Iterator[None]:
    """Put back how logging was configured: a command sets it up for its process, with a stream that the test closes."""
    known = structlog.get_config()
    root = std_logging.getLogger()
    loggers = [root, *map(std_logging.getLogger, logging.OURS)]
    handlers, levels = root.handlers[:], [logger.level for logger in loggers]
    try:
        with patch.object(logging, "_secrets", set(logging._secrets)):
            yield
    finally:
        structlog.configure(**known)
        root.handlers[:] = handlers
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)

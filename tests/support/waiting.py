"""Waiting for what nobody tells of: it is asked again and again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx

from tests.support.stalls import NotInTimeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess
    from threading import Thread

BUSY = 3.0
"""How many times as long as on an idle machine anything may take. What is to be quick is measured, not waited for."""


def until(reached: Callable[[], Any], timeout: float, what: str, *, step_s: float = 0.1) -> Any:
    """Wait until ``reached``, and return its answer; nobody there to answer is no answer yet.

    Args:
        reached: asked again and again.
        timeout: seconds that are enough on an idle machine; a busy one has BUSY times as many.
        what: is waited for, for the complaint.
        step_s: seconds between two questions.

    Raises:
        NotInTimeError: it did not come in time.
    """
    deadline = time.monotonic() + BUSY * timeout
    while time.monotonic() < deadline:
        try:
            found = reached()
        except httpx.TransportError:
            found = None
        if found:
            return found
        time.sleep(step_s)
    raise NotInTimeError(f"not in {BUSY * timeout:g} s: {what}")


def in_time(came: object, what: str = "its end") -> None:
    """Say what was late, where something that waits by itself (Event.wait, stop) returns whether it came.

    Raises:
        NotInTimeError: it did not come; an assertion would be false, and that is never late.
    """
    if not came:
        raise NotInTimeError(f"not in time: {what}")


def joined(worker: Thread | BaseProcess, timeout: float = 60.0) -> None:
    """Wait for the end of a thread or a process of ``multiprocessing``; a busy machine has BUSY times as long.

    Raises:
        NotInTimeError: it still runs.
    """
    worker.join(BUSY * timeout)
    in_time(not worker.is_alive(), f"the end of {worker.name}")

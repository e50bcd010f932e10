"""The signals that end a process."""

import signal
from types import FrameType

import structlog

from canary.threads import system

log = structlog.get_logger(__name__)


def stop_on_signals() -> system.Event:
    """Return an event that SIGTERM and SIGINT set. Only from the main thread."""
    stopping = system.event()

    def handle(number: int, _frame: FrameType | None) -> None:
        log.info("stopping", signal=signal.Signals(number).name)
        stopping.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    return stopping

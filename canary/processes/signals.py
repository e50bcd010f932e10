"""The signals that end a process."""

import signal
import threading
from types import FrameType

import structlog

log = structlog.get_logger(__name__)


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set. Only from the main thread."""
    stopping = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        log.info("stopping", signal=signal.Signals(number).name)
        stopping.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    return stopping

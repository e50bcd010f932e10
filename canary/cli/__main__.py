"""The process: ``canary``, or ``python -m canary.cli``."""

import contextlib
import os
import sys
import threading
from typing import NoReturn

from canary.cli import main


def run() -> NoReturn:
    """Run the command line, and end the process with its exit status even while a daemon thread is at work.

    Python stops such threads in the middle of their work (C++ of Arrow, a mutex of librdkafka, a write to stderr), and
    the process then aborts or hangs for ever. By now every part had the time to end, and what must be durable is; so
    the process exits at once.
    """
    try:
        main()
    except SystemExit as ended:
        if not any(thread.daemon for thread in threading.enumerate()):
            raise
        with contextlib.suppress(OSError):  # the reader has closed its end
            sys.stdout.flush()  # stderr is not buffered, and a blocked thread may hold it for ever
        os._exit(ended.code if isinstance(ended.code, int) else int(ended.code is not None))


if __name__ == "__main__":
    run()

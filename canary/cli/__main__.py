"""The process: ``canary``, or ``python -m canary.cli``."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import NoReturn

from canary.cli import main


def run() -> NoReturn:
    """Run the command line, and end the process with its exit status even while a daemon thread is at work.

    Python takes such threads down in the midst of what they do, and whatever that is (C++ of Arrow, a mutex of
    librdkafka, a line on its way to stderr), the process then aborts or hangs for ever. By now everybody had the time
    to end, and what must be durable is; so the process just goes.
    """
    try:
        main()
    except SystemExit as ended:
        if not any(thread.daemon for thread in threading.enumerate()):
            raise
        with contextlib.suppress(OSError):  # nobody reads any more
            sys.stdout.flush()  # stderr keeps no lines back, and a thread that nobody listens to may hold it for ever
        os._exit(ended.code if isinstance(ended.code, int) else int(ended.code is not None))


if __name__ == "__main__":
    run()

"""How the process of a command ends."""

from __future__ import annotations

import subprocess
import sys

# A thread is always within Arrow's C++, on whose end under it Python aborts.
BUSY = """
import sys, threading
import pyarrow as pa
from canary.cli import __main__ as process
reading = threading.Event()
class Slow:
    closed, seekable, writable = False, lambda self: False, lambda self: False
    readable = lambda self: True
    def read(self, size=-1):
        reading.set()
        threading.Event().wait(0.001)
        return b"."
def read_on():
    while True:
        pa.PythonFile(Slow(), mode="r").read(1)
threading.Thread(target=read_on, daemon=True).start()
reading.wait()
"""


def ended(code: str) -> tuple[int, bytes, bytes]:
    process = subprocess.run([sys.executable, "-c", BUSY + code], capture_output=True, check=False, timeout=60)
    return process.returncode, process.stdout, process.stderr


def test_a_thread_at_work_is_no_reason_to_abort_and_what_was_said_is_said() -> None:
    alone = [sys.executable, "-m", "canary.cli", "version"]
    said = subprocess.run(alone, capture_output=True, check=True, timeout=60).stdout
    assert ended("sys.argv = ['canary', 'version']; process.run()") == (0, said, b"")


def test_the_status_is_the_commands() -> None:
    assert ended("process.main = lambda: sys.exit(3); process.run()") == (3, b"", b"")

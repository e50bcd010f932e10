"""What a process gives back of the memory that it has freed."""

from __future__ import annotations

import subprocess
import sys

FREED = """
import ctypes
from pathlib import Path
from canary.footprint import Heaps, keep_small

keep_small()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]


def held():
    return int(Path("/proc/self/statm").read_text().split()[1])


def holes():
    pairs = [(libc.malloc(100_000), libc.malloc(100)) for _ in range(1000)]
    for large, _ in pairs:
        ctypes.memset(large, 1, 100_000)
    for large, _ in pairs:
        libc.free(large)  # between two that stay


heaps = Heaps()
heaps.look(1000.0)
print(held())
holes()
print(held())
heaps.look(1030.0)
print(held())
heaps.look(1060.0)
print(held())
"""


def test_what_is_freed_between_what_stays_is_given_back_once_a_minute() -> None:
    said = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True, timeout=120).stdout
    before, full, soon, later = map(int, said.split())
    assert full - before > 20_000, "pages: a hundred megabytes in holes"
    assert abs(soon - full) < 2_000, "it is not yet time"
    assert later - before < 2_000, "they are given back"

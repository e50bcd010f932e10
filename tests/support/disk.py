"""Disks that fail: one that can be filled, and one with other system calls."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from storage.ledger.files import Disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def disk_with(**calls: Callable[..., Any]) -> Disk:
    """Return the machine's disk with ``calls`` in the place of its own."""
    disk = Disk()
    vars(disk).update(calls)
    return disk


class SmallDisk:
    """A file system of two MB."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Leave no room."""
        with self._filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            for size in (65536, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"\0" * size)

    def empty(self) -> None:
        """Leave room again."""
        self._filler.unlink()


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[SmallDisk]:
    """Mount one at ``path``, which is made; the test is skipped where nobody may mount."""
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", path], check=False, capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small disk needs root, and the right to mount: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)

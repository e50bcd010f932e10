"""The system calls that make a file durable. Each raises OSError."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Disk:
    """The system calls that write; tests give failing ones."""

    write: Callable[[int, memoryview], int] = os.write
    fsync: Callable[[int], None] = os.fsync

    def append(self, descriptor: int, data: bytes) -> None:
        """Write all of ``data`` and fsync it; fail if the file was deleted, because no other process could read it."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.write(descriptor, rest) :]
        self.fsync(descriptor)
        if not os.fstat(descriptor).st_nlink:
            raise FileNotFoundError(errno.ENOENT, "the file was deleted")

    def create(self, path: Path, data: bytes) -> int:
        """Make the file ``path`` with ``data``, whole and durable or not at all; return a descriptor to append to."""
        try:
            return self.replace(path, data)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def replace(self, path: Path, data: bytes) -> int:
        """Make ``data`` the content of ``path``, or leave the file as it is; return a descriptor to append to.

        Writes a temporary file beside it, fsyncs, renames, and fsyncs the directory (if that fails, a power cut may
        leave either content).
        """
        temporary = path.with_name(f".{path.name}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o640)
        try:
            self.append(descriptor, data)
            temporary.replace(path)
            self.sync_directory(path.parent)
        except BaseException:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)
            raise
        return descriptor

    def sync_directory(self, directory: Path) -> None:
        """Make the names in ``directory`` durable."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.fsync(descriptor)
        finally:
            os.close(descriptor)

"""The file system calls of the ledger. Each raises OSError."""

import errno
import fcntl
import os
from pathlib import Path


class Disk:
    """The operating system's files; tests put another disk in its place. Descriptors are numbers, as in ``os``."""

    def open(self, path: Path, flags: int) -> int:
        """Return a descriptor; a file that is made belongs to its user and group."""
        return os.open(path, flags | os.O_CLOEXEC, 0o640)

    def close(self, descriptor: int) -> None:
        """Close the descriptor, which frees its lock."""
        os.close(descriptor)

    def read(self, path: Path, start: int = 0, count: int | None = None) -> bytes:
        """Return at most ``count`` bytes of the file from ``start`` on; None: all of them."""
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size  # a count may be absurd, and memory is set aside for it
            file.seek(start)
            return file.read(-1 if count is None else min(count, size))

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write the beginning of ``data``; return how many bytes."""
        return os.write(descriptor, data)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut the file off after ``size`` bytes."""
        os.ftruncate(descriptor, size)

    def fsync(self, descriptor: int) -> None:
        """Make the file's content durable, or the names in the directory."""
        os.fsync(descriptor)

    def is_deleted(self, descriptor: int) -> bool:
        """Whether the open file has no name any more."""
        return not os.fstat(descriptor).st_nlink

    def lock(self, descriptor: int) -> None:
        """Lock the file against other processes; fail at once if one has it."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def exists(self, path: Path) -> bool:
        """Whether there is a file or a directory."""
        return path.exists()

    def entries(self, directory: Path) -> list[Path]:
        """Return what is in the directory, in no order."""
        return list(directory.iterdir())

    def mkdir(self, directory: Path) -> None:
        """Make the directory and those above it, as far as they are missing."""
        directory.mkdir(parents=True, exist_ok=True)

    def rename(self, path: Path, to: Path) -> None:
        """Give the file another name, in place of any file that has it."""
        path.replace(to)

    def link(self, path: Path, to: Path) -> None:
        """Give the file a second name."""
        os.link(path, to)

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        """Delete the file's name."""
        path.unlink(missing_ok=missing_ok)

    def append(self, descriptor: int, data: bytes) -> None:
        """Write all of ``data`` and fsync it; fail if the file was deleted, because no other process could read it."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.write(descriptor, rest) :]
        self.fsync(descriptor)
        if self.is_deleted(descriptor):
            raise FileNotFoundError(errno.ENOENT, "the file was deleted")

    def replace(self, path: Path, data: bytes) -> int:
        """Make ``data`` the content of ``path``, or leave the file as it is; return a descriptor to append to.

        Writes a temporary file beside it, fsyncs, renames, and fsyncs the directory (if that fails, a power cut may
        leave either content).
        """
        temporary = path.with_name(f".{path.name}.tmp")
        descriptor = self.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        try:
            self.append(descriptor, data)
            self.rename(temporary, path)
            self.sync_directory(path.parent)
        except BaseException:
            self.close(descriptor)
            self.unlink(temporary, missing_ok=True)
            raise
        return descriptor

    def discard(self, path: Path) -> bool:
        """Delete the file, if it is there. Returns whether no power cut can bring it back."""
        try:
            if self.exists(path):
                self.unlink(path)
                self.sync_directory(path.parent)
        except OSError:
            return False
        return True

    def make_directory(self, directory: Path) -> None:
        """Make the directory and those above it, as far as they are missing, durably."""
        missing = [one for one in (directory, *directory.parents) if not self.exists(one)]
        self.mkdir(directory)
        for one in missing:
            self.sync_directory(one.parent)

    def sync_directory(self, directory: Path) -> None:
        """Make the names in ``directory`` durable."""
        descriptor = self.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.fsync(descriptor)
        finally:
            self.close(descriptor)


DISK = Disk()
"""The machine's."""

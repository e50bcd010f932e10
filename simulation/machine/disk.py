"""A disk in memory that fails, lies, and forgets in a power cut what was never made durable: the ledger's port."""

import errno
import itertools
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from simulation.machine.faults import Fault
from simulation.machine.files import Backup, Directory, File, Tree, copied, error_of, files_of, made
from simulation.machine.schedule import Killed, Process, Schedule
from storage.ledger.files import Disk


@dataclass(slots=True)
class Handle:
    """An open file or directory."""

    node: File | Directory
    path: Path
    process: Process

    def file(self) -> File:
        """Return the open file, or raise OSError where it is a directory."""
        if isinstance(self.node, Directory):
            raise error_of(errno.EISDIR, self.path)
        return self.node


class LyingDisk(Disk):
    """One machine's disk, for all processes on it; the process of a call is the one whose task runs.

    A dead process's calls raise Killed and do nothing. ``on_step`` is called before and after each step that changes
    something durable: create, write, fsync, truncate, rename, link, unlink, mkdir. It may kill the process there.
    Nothing goes wrong with calls outside of any task of the schedule: they are those of a test.

    Args:
        schedule: whose tasks call; None: all calls are those of ``owner``.
        dice: for short writes, for what a failed fsync does, and for faults by chance.
    """

    def __init__(self, schedule: Schedule | None = None, dice: random.Random | None = None) -> None:
        self.owner = Process("owner of the disk")
        """The process of calls outside of any task."""
        self.on_step: Callable[[str, Literal["before", "after"]], None] | None = None
        self.capacity: int | None = None
        """How many bytes fit; None: any number."""
        self.shuffles = False
        """Whether a power cut keeps pages in any order; those missing within the file are zeros."""
        self.calls: Counter[str] = Counter()
        """Calls so far, by operation."""
        self.damaged: list[float] = []
        """When it came to hold something else than it had been told to keep."""
        self._lied = False
        self._schedule = schedule
        self._dice = dice or random.Random(0)  # to be repeated, not to be secret
        self._tree = Tree()
        self._handles: dict[int, Handle] = {}
        self._locks: dict[int, File | Directory] = {}
        self._numbers = itertools.count(3)
        self._faults: list[Fault] = []

    # What goes wrong

    def fail(
        self,
        *operations: str,
        error: int = errno.EIO,
        times: int | None = None,
        after: int = 0,
        where: str = "",
        delay_s: float = 0.0,
        chance: float = 1.0,
    ) -> Fault:
        """Let operations fail until ``heal``; each is a method's name, "create" for an open that makes a file.

        Two that raise nothing: "short write" writes only a part, "lying fsync" makes nothing durable.
        """
        fault = Fault(operations, error, times, after, where, delay_s, chance)
        self._faults.append(fault)
        return fault

    def slow(self, *operations: str, delay_s: float, times: int | None = None, where: str = "") -> Fault:
        """Let operations take so many virtual seconds."""
        return self.fail(*operations, error=0, delay_s=delay_s, times=times, where=where)

    def read_only(self) -> Fault:
        """Refuse every change."""
        changes = ("create", "write", "truncate", "rename", "link", "unlink", "mkdir")
        return self.fail(*changes, error=errno.EROFS)

    def heal(self, *faults: Fault) -> None:
        """Let nothing more go wrong; or only these no more."""
        self._faults = [one for one in self._faults if faults and one not in faults]

    def power_cut(self, dice: random.Random) -> None:
        """Forget what is not durable, every descriptor and every lock. Kill the processes, too."""
        self._handles.clear()
        self._locks.clear()
        if self._lied:
            self._note_damage()
        self._lied = False
        self._tree.root.lose(dice, shuffled=self.shuffles)
        files = list(files_of(self._tree.root))
        for file in files:
            file.links = 0
        for file in files:
            file.links += 1

    def release(self, process: Process) -> None:
        """Close what a dead process had open, and free its locks."""
        for descriptor in [number for number, handle in self._handles.items() if handle.process is process]:
            self._drop(descriptor)

    def rot(self, path: Path, at: int | None = None, bits: int = 1) -> int:
        """Flip bits of a byte, durably; return which byte (None: the dice say)."""
        file = self._tree.file(path)
        self._note_damage()
        at = self._dice.randrange(max(len(file.durable), len(file.cached), 1)) if at is None else at
        for content in (file.durable, file.cached):
            if at < len(content):
                content[at] ^= bits
        return at

    def vanish(self, path: Path) -> None:
        """Lose a file or a directory, durably and without a trace."""
        self._note_damage()
        parent = self._tree.directory(path.parent)
        parent.change({path.name: None})
        for change in parent.dirty:
            change.pop(path.name, None)
        parent.durable.pop(path.name, None)

    def wipe(self, directory: Path) -> None:
        """Lose all that is in the directory, durably."""
        self.restore(directory, {})

    def backup(self, directory: Path) -> Backup:
        """Return a copy of all that is in the directory."""
        return copied(self._tree.directory(directory))

    def restore(self, directory: Path, backup: Backup) -> None:
        """Put a copy back, durably, in place of all that is in the directory."""
        self._note_damage()
        node = self._tree.make(directory)
        for path in directory.parents:
            self._tree.directory(path).sync()
        node.change(dict.fromkeys(node.cached))
        node.change({name: made(content) for name, content in backup.items()})
        node.sync()

    def is_well(self) -> bool:
        """Whether nothing goes wrong now."""
        return not self._faults

    @property
    def pretends(self) -> bool:
        """Whether a file shows what is neither durable nor dirty, so that no fsync will make it durable."""
        return any(not file.dirty and file.cached != file.durable for file in files_of(self._tree.root))

    @property
    def used(self) -> int:
        """How many bytes the files have."""
        return sum(len(file.cached) for file in files_of(self._tree.root))

    # The port

    def open(self, path: Path, flags: int) -> int:
        """Open a file or a directory; return its descriptor."""
        process = self._begin("open", path)
        node = self._tree.find(path)
        if node is None and flags & os.O_CREAT:
            self._begin_step("create", path)
            self._tree.directory(path.parent).change({path.name: (node := File())})
            self._end_step("create")
        if node is None:
            raise error_of(errno.ENOENT, path)
        if flags & os.O_DIRECTORY and not isinstance(node, Directory):
            raise error_of(errno.ENOTDIR, path)
        if flags & os.O_TRUNC and isinstance(node, File) and node.cached:
            self._begin_step("truncate", path)
            node.change(0)
            self._end_step("truncate")
        descriptor = next(self._numbers)
        self._handles[descriptor] = Handle(node, path, process)
        return descriptor

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        handle = self._handle(descriptor)
        try:
            self._begin("close", handle.path)
        finally:
            if not handle.process.dead:
                self._drop(descriptor)

    def read(self, path: Path, start: int = 0, count: int | None = None) -> bytes:
        """Return a part of a file."""
        self._begin("read", path)
        file = self._tree.file(path)
        return bytes(file.cached[start : None if count is None else start + count])

    def write(self, descriptor: int, data: memoryview) -> int:
        """Append to a file; return how many bytes were written."""
        handle = self._handle(descriptor)
        self._begin_step("write", handle.path)
        room = len(data) if self.capacity is None else min(len(data), self.capacity - self.used)
        if room <= 0 < len(data):
            raise error_of(errno.ENOSPC, handle.path)
        if room > 1 and self._met("short write", handle.path):
            room = self._dice.randrange(1, room)
        file = handle.file()
        file.change((len(file.cached), bytes(data[:room])))
        self._end_step("write")
        return room

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file to a size."""
        handle = self._handle(descriptor)
        self._begin_step("truncate", handle.path)
        handle.file().change(size)
        self._end_step("truncate")

    def fsync(self, descriptor: int) -> None:
        """Make durable what was written, or what became of names."""
        handle = self._handle(descriptor)
        try:
            self._begin_step("fsync", handle.path)
        except OSError:
            if isinstance(handle.node, File):
                handle.node.fail_to_sync(self._dice)
            raise
        if self._met("lying fsync", handle.path):
            self._lied = True
        else:
            handle.node.sync()
        self._end_step("fsync")

    def is_deleted(self, descriptor: int) -> bool:
        """Return whether an open file has no name any more."""
        handle = self._handle(descriptor)
        self._begin("is_deleted", handle.path)
        return isinstance(handle.node, File) and not handle.node.links

    def lock(self, descriptor: int) -> None:
        """Lock a file; an error if another live process has locked it."""
        handle = self._handle(descriptor)
        self._begin("lock", handle.path)
        for holder, node in list(self._locks.items()):
            if node is handle.node and holder != descriptor:
                if not self._handles[holder].process.dead:
                    raise error_of(errno.EWOULDBLOCK, handle.path)
                del self._locks[holder]
        self._locks[descriptor] = handle.node

    def exists(self, path: Path) -> bool:
        """Return whether something is there."""
        self._begin("exists", path)
        return self._tree.find(path) is not None

    def entries(self, directory: Path) -> list[Path]:
        """Return the paths of all that is in a directory."""
        self._begin("entries", directory)
        return [directory / name for name in self._tree.directory(directory).cached]

    def mkdir(self, directory: Path) -> None:
        """Make a directory, with its parents."""
        self._begin_step("mkdir", directory)
        self._tree.make(directory)
        self._end_step("mkdir")

    def rename(self, path: Path, to: Path) -> None:
        """Rename a file; one that has the new name is gone."""
        self._begin_step("rename", path)
        parent, onto = self._tree.directory(path.parent), self._tree.directory(to.parent)
        node = self._tree.present(path)
        if parent is onto:
            parent.change({path.name: None, to.name: node})
        else:
            onto.change({to.name: node})
            parent.change({path.name: None})
        self._end_step("rename")

    def link(self, path: Path, to: Path) -> None:
        """Give a file another name."""
        self._begin_step("link", path)
        file = self._tree.file(path)
        if self._tree.find(to) is not None:
            raise error_of(errno.EEXIST, to)
        self._tree.directory(to.parent).change({to.name: file})
        self._end_step("link")

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        """Take a file's name away."""
        self._begin("lookup", path)
        if missing_ok and self._tree.find(path) is None:
            return
        self._begin_step("unlink", path)
        self._tree.file(path)
        self._tree.directory(path.parent).change({path.name: None})
        self._end_step("unlink")

    # Within

    def _note_damage(self) -> None:
        self.damaged.append(0.0 if self._schedule is None else self._schedule.now)

    def _begin(self, operation: str, path: Path) -> Process:
        """Return the process that calls; raise what goes wrong with its call."""
        process = self._caller
        if self._schedule is not None and process is self.owner:
            return process
        self.calls[operation] += 1
        for fault in self._faults:
            if fault.meets(operation, path, self._dice):
                self._pause(fault.delay_s)
                if fault.error:
                    raise error_of(fault.error, path)
        return process

    @property
    def _caller(self) -> Process:
        task = self._schedule.current if self._schedule is not None else None
        process = task.process if task is not None else self.owner
        if process.dead:
            raise Killed
        return process

    def _pause(self, seconds: float) -> None:
        schedule = self._schedule
        if schedule is not None and schedule.current is not None:
            due = schedule.now + seconds
            while schedule.now < due:
                schedule.park(due)

    def _met(self, operation: str, path: Path) -> bool:
        """Whether a fault that raises nothing meets this call."""
        met = [fault.meets(operation, path, self._dice) for fault in self._faults]
        return any(met)

    def _begin_step(self, operation: str, path: Path) -> None:
        self._begin(operation, path)
        self._hook(operation, "before")

    def _end_step(self, operation: str) -> None:
        self._hook(operation, "after")

    def _hook(self, operation: str, when: Literal["before", "after"]) -> None:
        if self.on_step is not None and (self._schedule is None or self._caller is not self.owner):
            self.on_step(operation, when)
            self._caller  # noqa: B018  # it may have been killed

    def _handle(self, descriptor: int) -> Handle:
        self._caller  # noqa: B018  # of a dead process nothing is open any more
        handle = self._handles.get(descriptor)
        if handle is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return handle

    def _drop(self, descriptor: int) -> None:
        self._handles.pop(descriptor, None)
        self._locks.pop(descriptor, None)

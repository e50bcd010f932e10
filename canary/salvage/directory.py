"""A broker's log directory, or one partition's folder in it; only read.

Kafka holds a POSIX lock on ``.lock`` of the log directory while it runs. ``meta.properties`` names the cluster,
``partition.metadata`` the topic's id (KIP-516), ``leader-epoch-checkpoint`` where each leader epoch begins (KIP-101).
"""

import errno
import fcntl
import re
import struct
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from canary.anomalies.policy import KAFKAS_OWN
from canary.errors import UserError
from canary.facts.incarnation import one_form
from canary.salvage.segments import segments

_PARTITION: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,8})")
_SET_ASIDE: Final = re.compile(_PARTITION.pattern + r"\.[^.]+-(delete|stray|future)")
"""A folder that Kafka deletes soon, or fills from another disk."""
_ESCAPED: Final = re.compile(r"\\(.)")
"""Java writes the = at the end of a cluster's id as \\=."""
_SOME: Final = 5
_LOCK: Final = struct.Struct("hhqqi4x")
"""struct flock of Linux: type, whence, start, length, pid."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A partition's folder.

    Attributes:
        topic_id: in the one form that the canary keeps (`one_form`); None: not told, as before Kafka 2.8.
        epochs: (leader epoch, its first offset), as the checkpoint has them; empty without one.
    """

    topic: str
    partition: int
    path: Path
    topic_id: str | None
    epochs: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        """Its folder's name."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """What was found; ``cluster_id`` and ``broker`` are None where meta.properties is not there.

    Attributes:
        root: the log.dir: ``path``, or where that is one partition's folder, its parent.
        set_aside: names of folders that were not read, which end with -delete, -stray or -future.
    """

    path: Path
    root: Path
    replicas: tuple[Replica, ...]
    cluster_id: str | None
    broker: int | None
    set_aside: tuple[str, ...]

    def refuse_if_running(self) -> None:
        """Refuse a directory whose lock is held: its broker runs, and cuts and deletes what is read.

        Raises:
            UserError: it is.
        """
        try:
            _refuse_if_running(self.root)
        except OSError as error:
            raise _unreadable(self.root, error) from error

    def refuse_to_hold(self, out: Path) -> None:
        """Refuse to write into a broker's log.dir: Kafka does not start with a folder in it that is no partition's.

        Raises:
            UserError: ``out`` is in it.
        """
        if (self.root / "meta.properties").is_file() and out.resolve().is_relative_to(self.root):
            raise UserError(f"--out {out} is in the log.dir {self.root}, to which nothing is written; name another one")


def opened(path: Path, topics: Collection[str] = (), partitions: Collection[int] = ()) -> LogDirectory:
    """Return what is in a log directory, of these topics and partitions; all of them, Kafka's own left out, if empty.

    Raises:
        UserError: there is none, nothing of that is in it, or a broker runs on it.
    """
    try:
        path = path.resolve(strict=True)
        single = _PARTITION.fullmatch(path.name) is not None and bool(segments(path))
        root = path.parent if single else path
        _refuse_if_running(root)
        folders = [path] if single else sorted(path.iterdir())
        found = [_replica(one) for one in folders if _holds_a_log(one)]
        meta = _properties(root / "meta.properties")
    except OSError as error:
        raise _unreadable(path, error) from error
    wanted = [
        one
        for one in found
        if (one.topic in topics or (not topics and (single or one.topic not in KAFKAS_OWN)))
        and (not partitions or one.partition in partitions)
    ]
    aside = tuple(one.name for one in folders if _SET_ASIDE.fullmatch(one.name))
    missing = sorted(set(topics) - {one.topic for one in wanted})
    if missing or not wanted:
        if missing:
            what = f"no log of {', '.join(missing)}"
        elif found:
            what = (
                f"nothing but {', '.join(one.name for one in found[:_SOME])}, which --topic and --partition leave out"
            )
        else:
            what = "no folder TOPIC-PARTITION with a log"
        remedy = "name a broker's log.dir, or one partition's folder in it"
        if aside:
            remedy = (
                f"Kafka has set aside {', '.join(aside[:_SOME])}: name a copy of it TOPIC-PARTITION to have it read"
            )
        raise UserError(f"--log-dir {path}: {what}; {remedy}")
    broker = meta.get("node.id") or meta.get("broker.id") or ""
    ordered = sorted(wanted, key=lambda one: (one.topic, one.partition))
    return LogDirectory(
        path,
        root,
        tuple(ordered),
        meta.get("cluster.id"),
        int(broker) if broker.isdecimal() else None,
        aside,
    )


def _unreadable(path: Path, error: OSError) -> UserError:
    within = f" ({error.filename})" if error.filename not in {None, str(path)} else ""
    return UserError(f"--log-dir {path}: {error.strerror}{within}")


def _holds_a_log(path: Path) -> bool:
    return _PARTITION.fullmatch(path.name) is not None and path.is_dir() and bool(segments(path))


def _replica(path: Path) -> Replica:
    match = _PARTITION.fullmatch(path.name)
    assert match is not None  # noqa: S101  # the caller looked
    metadata = _properties(path / "partition.metadata", ":")
    topic_id = metadata.get("topic_id")
    made = None if topic_id is None else one_form(topic_id)
    return Replica(match["topic"], int(match["partition"]), path, made, _checkpointed(path))


def _properties(path: Path, separator: str = "=") -> dict[str, str]:
    if not path.is_file():
        return {}
    lines = (line.partition(separator) for line in path.read_text("utf-8", "replace").splitlines())
    return {
        name.strip(): _ESCAPED.sub(r"\1", value.strip())
        for name, found, value in lines
        if found and not name.startswith("#")
    }


def _checkpointed(path: Path) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs of a checkpoint: a version, a count, then lines "epoch offset"."""
    file = path / "leader-epoch-checkpoint"
    if not file.is_file():
        return ()
    rows = [line.split() for line in file.read_text("ascii", "replace").splitlines()[2:]]
    if not all(len(row) == 2 and all(word.isdigit() for word in row) for row in rows):  # torn
        return ()
    return tuple((int(epoch), int(start)) for epoch, start in rows)


def _refuse_if_running(root: Path) -> None:
    lock = root / ".lock"
    if not lock.is_file():
        return
    wanted = _LOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0)
    try:
        with lock.open("rb") as file:
            kind, *_ = _LOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, wanted))
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP}:
            return  # a file system without locks
        raise
    if kind != fcntl.F_UNLCK:
        raise UserError(
            f"--log-dir {root}: a broker runs on it ({lock} is locked) and may cut it at any time; "
            "stop the broker, or copy the directory and name the copy"
        )

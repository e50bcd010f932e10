"""What can be done to the disks of nodes."""

import resource
import shutil
import subprocess
from pathlib import Path

import structlog

from canary.lab import events, logs
from canary.lab.cluster import Cluster

_log = structlog.get_logger(__name__)


class Damageable(Cluster):
    """Nodes whose data can be lost."""

    def truncate(
        self,
        broker: int,
        topic: str,
        partition: int,
        *,
        bytes: int | None = None,  # noqa: A002  # what is cut, in the caller's words
        to_offset: int | None = None,
    ) -> logs.Cut:
        """Cut the end off a stopped broker's log on disk, as a crash without fsync does; see canary.lab.logs.

        Either so many ``bytes``, or ``to_offset``: this offset and all behind it (whole batches).

        Raises:
            LabError: the broker runs, or holds no such replica.
        """
        self._site.require_stopped(broker, "its logs are cut")
        events.note(self.directory, "cut", (broker,))
        cut = logs.truncate(self._site.data(broker), topic, partition, count=bytes, to_offset=to_offset)
        _log.info("log_truncated", broker=broker, topic=topic, partition=partition, before=cut.before, after=cut.after)
        return cut

    def wipe(self, node: int) -> None:
        """Give a stopped node an empty disk, formatted for the same cluster: the same node id, a new directory id.

        A broker has no replica then, a controller no metadata.

        Raises:
            LabError: it runs, there is none, or it is ZooKeeper.
        """
        now = self._site.state()
        self._site.require_stopped(node, "its disk is emptied")
        if now.zookeeper:
            self._site.require_broker(node)
        events.note(self.directory, "wiped", (node,))
        shutil.rmtree(self._site.data(node))
        self._site.configure(now, node)
        if node in now.controllers:
            self._site.format_controller(now, node)

    def copy_data(self, node: int) -> Path:
        """Keep a copy of a stopped node's data, and return where it is; for put_data().

        Raises:
            LabError: it runs, or is none.
        """
        self._site.require_stopped(node, "its data is copied")
        copies = self.directory / "copies"
        copies.mkdir(exist_ok=True)
        copy = copies / f"{self._site.home(node).name}-{len(list(copies.iterdir()))}"
        _copy(self._site.data(node), copy)
        return copy

    def put_data(self, node: int, copy: Path) -> None:
        """Replace a stopped node's data by a copy of it: a disk that was restored from a backup, or another's.

        Raises:
            LabError: it runs, or is none.
        """
        self._site.require_stopped(node, "its data is replaced")
        events.note(self.directory, "replaced", (node,))
        shutil.rmtree(self._site.data(node))
        _copy(copy, self._site.data(node))

    def limit_file_size(self, node: int, bytes: int | None) -> None:  # noqa: A002  # what files may hold
        """Let a running node write no file beyond a size; None lifts the limit, and so does a restart.

        A write beyond it fails as on a full disk (EFBIG in place of ENOSPC), which needs neither root nor a disk.
        The limit is that of its server.log, too: below the size of that, it says nothing more.

        Raises:
            LabError: it does not run.
        """
        pid = self._site.require_pid(node)
        events.note(self.directory, "limited", (node,))
        _soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if bytes is None else bytes, hard))


def _copy(data: Path, to: Path) -> None:
    """Copy a directory with cp, which keeps the holes of Kafka's preallocated indexes."""
    subprocess.run(["cp", "-a", "--sparse=always", str(data), str(to)], check=True)  # noqa: S603, S607  # coreutils

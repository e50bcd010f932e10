"""What can be done to the disk of a broker that does not run."""

import shutil

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

    def wipe(self, broker: int) -> None:
        """Give a stopped broker an empty disk: the same node id, a new directory id, and no replica.

        Raises:
            LabError: it runs, or is none.
        """
        self._site.require_broker(broker)
        self._site.require_stopped(broker, "its disk is emptied")
        events.note(self.directory, "wiped", (broker,))
        shutil.rmtree(self._site.data(broker))
        self._site.configure(self._site.state(), broker)

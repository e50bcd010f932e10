"""The thread that asks how large the logs of probe topics are, where retention.bytes may delete from them.

librdkafka has no DescribeLogDirs, so it is asked over canary.wire. Most probe topics have no retention.bytes: for them
no connection is made.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from canary.facts import LogSized
from canary.threads.ports import Clock, Inbox
from canary.watching.elections.asking import WireWatcher
from canary.wire.errors import WireError

EVERY_S: Final = 60.0
_UNTIL_S: Final = 10.0
"""How often it looks whether there is a topic to ask for."""
_WHAT: Final = "what retention.bytes explains is unknown"


class LogSizeWatcher(WireWatcher):
    """Asks each leader for the sizes of its logs, until stopped. Needs Describe of the cluster.

    Args:
        topics: returns the probe topics with a retention.bytes.
        inbox: takes LogSized facts.
    """

    def __init__(
        self, config: Mapping[str, object], topics: Callable[[], Collection[str]], inbox: Inbox, clock: Clock
    ) -> None:
        super().__init__("log-size-watcher", config, inbox, clock, EVERY_S)
        self._topics = topics

    def run(self) -> None:
        """Ask until stopped, from the first time on that there is a topic to ask for."""
        going = True
        while going and not self._topics():
            going = self.wait(_UNTIL_S)
        super().run()

    def look(self, admin: Any) -> None:
        """Ask once; a leader that does not answer leaves the sizes of its logs unknown."""
        from canary.wire.topics import sizes_at_leaders  # noqa: PLC0415  # 23 MB, for topics with a retention.bytes

        refusals: list[WireError] = []
        for sizes in sizes_at_leaders(admin, self._topics()):
            if isinstance(sizes, WireError):
                refusals += [sizes] if sizes.refused else []
                continue
            at_ns = self._clock.now_ns()
            self._inbox.tell([LogSized(at_ns, *place, size) for place, size in sizes.items()])
        self.failing = f"{_WHAT}: {refusals[0]} (docs/acl.md)" if refusals else None

    def unanswered(self, error: WireError) -> None:
        """Nothing is known now."""
        self.failing = f"{_WHAT}: {error} (docs/acl.md)" if error.refused else None

"""The thread that asks how large the logs of probe topics are, where retention.bytes may delete from them.

librdkafka has no DescribeLogDirs, so it is asked over canary.wire. Most probe topics have no retention.bytes: for them
no connection is made.
"""

from collections import defaultdict
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
        from canary.wire.replicas import described  # noqa: PLC0415  # 23 MB, for topics that have a retention.bytes
        from canary.wire.topics import log_sizes  # noqa: PLC0415  # the same

        led: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        for found in described(admin, self._topics()).values():
            for one in () if isinstance(found, WireError) else found:
                if one.leader is not None:
                    led[one.leader].append((one.topic, one.partition))
        refusals: list[WireError] = []
        for leader, places in led.items():
            try:
                sizes = log_sizes(admin, places, leader)
            except WireError as error:
                refusals += [error] if error.refused else []
                continue
            at_ns = self._clock.now_ns()
            self._inbox.put([LogSized(at_ns, *place, size) for place, size in sizes.items()])
        self.failing = f"{_WHAT}: {refusals[0]} (docs/acl.md)" if refusals else None

    def unanswered(self, error: WireError) -> None:
        """Nothing is known now."""
        self.failing = f"{_WHAT}: {error} (docs/acl.md)" if error.refused else None

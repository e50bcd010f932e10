"""What happened to a lab: what was done to its nodes, and what its brokers say of fencing and in-sync replicas.

Tests hold what a canary reports against these events. Example: a broker that the machine starved is fenced like one
that was killed; only a line in ``actions.log`` (in the lab's directory) tells the two apart. Fencing and ISR changes
are in ``events.log`` of each node's directory.
"""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, get_args

Action = Literal[
    "started", "stopped", "killed", "paused", "resumed", "cut", "wiped", "replaced", "limited", "impaired", "healed"
]
What = Literal[Action, "fenced", "unfenced", "isr", "unclean"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Attributes:
        at: seconds since the epoch, by this machine's clock.
        what: an action on ``node``, or what the controller logs of it (fenced, unfenced); "isr": the in-sync replicas
            of a partition, logged by its leader ``node``; "unclean": a partition's leader was not in sync.
        node: id.
        topic, partition: None unless it is about a partition.
        isr: None unless ``what`` is "isr".
    """

    at: float
    what: What
    node: int
    topic: str | None = None
    partition: int | None = None
    isr: frozenset[int] | None = None

    def __str__(self) -> str:
        """Return it as a line for people."""
        at = datetime.fromtimestamp(self.at).astimezone().isoformat(timespec="milliseconds")
        place = "" if self.topic is None else f" {self.topic}-{self.partition}"
        isr = "" if self.isr is None else f" {sorted(self.isr)}"
        return f"{at} node {self.node}: {self.what}{place}{isr}"


_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d),(\d{3}) ")
_DONE: Final = re.compile(rf"LAB ({'|'.join(get_args(Action))}) (\d+)$")
_PLACE: Final = r"(?P<topic>\S+)-(?P<partition>\d+)"
_LOGGED: Final[tuple[tuple[What, re.Pattern[str]], ...]] = (
    ("fenced", re.compile(r"Fencing broker (?P<node>\d+) ")),
    ("unfenced", re.compile(r"Replayed BrokerRegistrationChangeRecord .*brokerId=(?P<node>\d+),.*\bfenced=-1")),
    ("isr", re.compile(rf"\[Partition {_PLACE} broker=(?P<node>\d+)\] ISR updated to (?P<isr>[\d,]*)")),
    ("unclean", re.compile(rf"id=(?P<node>\d+)\] UNCLEAN partition change for {_PLACE}\b")),
)


def note(directory: Path, what: Action, nodes: Iterable[int]) -> None:
    """Log what is about to be done to nodes of a lab."""
    now = time.time()
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    lines = "".join(f"{at},{int(now % 1 * 1000):03d} LAB {what} {node}\n" for node in nodes)
    with (directory / "actions.log").open("a") as file:
        file.write(lines)


def events(directory: Path, since: float = 0.0) -> list[Event]:
    """Return what happened to the lab in a directory since a time (s since the epoch), oldest first."""
    found: list[Event] = []
    for path in (directory / "actions.log", *directory.glob("*/events.log*")):
        if path.is_file():
            found += [
                event
                for line in path.read_text(errors="replace").splitlines()
                if (event := _event(line)) is not None and event.at >= since
            ]
    return sorted(found, key=lambda event: event.at)


def _event(line: str) -> Event | None:
    stamp = _TIME.match(line)
    if stamp is None:  # the rest of a longer message
        return None
    at = datetime.fromisoformat(stamp[1]).timestamp() + int(stamp[2]) / 1000  # both sides write local time
    if (done := _DONE.search(line)) is not None:
        return Event(at, done[1], int(done[2]))  # type: ignore[arg-type]  # one of Action's
    for what, pattern in _LOGGED:
        if (logged := pattern.search(line)) is not None:
            return _logged(at, what, logged.groupdict())
    return None


def _logged(at: float, what: What, words: dict[str, str]) -> Event:
    event = Event(at, what, int(words["node"]))
    if "topic" in words:
        event = replace(event, topic=words["topic"], partition=int(words["partition"]))
    if "isr" in words:
        event = replace(event, isr=frozenset(int(one) for one in words["isr"].split(",") if one))
    return event

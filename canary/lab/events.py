"""What happened to a lab: what was done to its nodes, and what its brokers say of fencing and in-sync replicas.

Whoever judges what a canary said about a lab asks here what was true: a broker that the machine starved is fenced like
one that was killed, and only this tells the two apart. Kept as lines of text, one file for what was done
(``actions.log`` in the lab's directory) and one for each node (``events.log`` in the node's).
"""

import math
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, get_args

from canary.lab.state import CONTROLLER

Action = Literal["started", "stopped", "killed", "paused", "resumed", "cut"]
What = Literal[Action, "fenced", "unfenced", "isr", "unclean"]

EXPELLING: Final = frozenset({"stopped", "killed", "paused"})
"""What is done to a node that is silent afterwards."""
RETURNING_S: Final = 30.0
"""How long one that came back may still be expelled for its silence: longer than a session of either profile."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Attributes:
        at: seconds since the epoch, by this machine's clock.
        what: was done to ``node``, or is said of it by the controller (fenced, unfenced); "isr": the in-sync replicas
            of a partition, said by its leader ``node``; "unclean": a partition has a leader that was not in sync.
        node: id.
        topic: None unless it is about a partition.
        partition: None unless it is about a partition.
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
_SAID: Final[tuple[tuple[What, re.Pattern[str]], ...]] = (
    ("fenced", re.compile(r"Fencing broker (?P<node>\d+) ")),
    ("unfenced", re.compile(r"Replayed BrokerRegistrationChangeRecord .*brokerId=(?P<node>\d+),.*\bfenced=-1")),
    ("isr", re.compile(rf"\[Partition {_PLACE} broker=(?P<node>\d+)\] ISR updated to (?P<isr>[\d,]*)")),
    ("unclean", re.compile(rf"id=(?P<node>\d+)\] UNCLEAN partition change for {_PLACE}\b")),
)


def note(directory: Path, what: Action, nodes: Iterable[int]) -> None:
    """Write down what is about to be done to nodes of a lab."""
    now = time.time()
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    lines = "".join(f"{at},{int(now % 1 * 1000):03d} LAB {what} {node}\n" for node in nodes)
    with (directory / "actions.log").open("a") as file:
        file.write(lines)


def events(directory: Path, since: float = 0.0) -> list[Event]:
    """Return what happened to the lab in a directory, in the order of time.

    Args:
        directory: the lab's.
        since: seconds since the epoch.
    """
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
    if stamp is None:  # a line that another one begins
        return None
    at = datetime.fromisoformat(stamp[1]).timestamp() + int(stamp[2]) / 1000  # both sides write local time
    if (done := _DONE.search(line)) is not None:
        return Event(at, done[1], int(done[2]))  # type: ignore[arg-type]  # one of Action's
    for what, pattern in _SAID:
        if (said := pattern.search(line)) is not None:
            return _said(at, what, said.groupdict())
    return None


def _said(at: float, what: What, words: dict[str, str]) -> Event:
    event = Event(at, what, int(words["node"]))
    if "topic" in words:
        event = replace(event, topic=words["topic"], partition=int(words["partition"]))
    if "isr" in words:
        event = replace(event, isr=frozenset(int(one) for one in words["isr"].split(",") if one))
    return event


def unasked(happened: Iterable[Event]) -> list[Event]:
    """Return each expulsion that nothing done to a node explains: the machine gave the broker no time.

    Fencing counts, and an ISR that loses a broker. Excused is a broker that was silenced, until some time after it came
    back, and every broker while the controller was.
    """
    excused: dict[int, float] = {}  # until when, by node
    fenced: set[int] = set()
    isrs: dict[tuple[str | None, int | None], frozenset[int]] = {}
    found = []
    for event in happened:
        node, over = event.node, event.at + RETURNING_S
        if event.what in EXPELLING:
            excused[node] = math.inf
        elif event.what in {"started", "resumed"} and node not in fenced:
            excused[node] = over
        elif event.what == "unfenced":
            fenced.discard(node)
            excused[node] = min(excused.get(node, 0.0), over)
        now = {one for one, until in excused.items() if until >= event.at}
        if event.what == "fenced":
            fenced.add(node)
            if not {node, CONTROLLER} & now:
                found.append(event)
        elif event.isr is not None:
            place = (event.topic, event.partition)
            if CONTROLLER not in now and isrs.get(place, event.isr) - event.isr - now:
                found.append(event)
            isrs[place] = event.isr
    return found

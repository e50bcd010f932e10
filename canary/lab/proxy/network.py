"""The faults in force, and what they do to connections and requests."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from canary.lab.proxy import fetched, frames, lies
from canary.lab.proxy.faults import Cut, Delay, Fault, Hold, Lie, LoseAnswers, Party, Redirect, ShiftFetch
from canary.lab.proxy.frames import Request
from canary.lab.proxy.link import Link
from canary.lab.proxy.stream import Stream


@dataclass
class _Counted:
    """A fault that happens to so many more requests, or answers."""

    fault: LoseAnswers | Hold | ShiftFetch
    left: int


@dataclass
class _Held:
    """A request that is held back until so many more have come."""

    fault: Hold
    link: Link
    frame: bytes
    request: Request
    left: int

    def deliver(self, waiting: Stream | None) -> None:
        """Send it on; ``waiting`` is the stream that waits until it is answered."""
        if waiting is not None:
            waiting.blocked += 1
        self.link.at_answer(self.request.correlation, waiting.unblock if waiting else lambda: None)
        self.link.holding -= 1
        self.link.requests.put(self.frame)


class FaultyNetwork:
    """Every connection through the proxy, and what is done to it."""

    def __init__(
        self, dial: Callable[[Link, asyncio.Transport], None], topic_id: Callable[[int, str, int], bytes]
    ) -> None:
        """Take two functions.

        Args:
            dial: finds out who opened a connection, and connects it to its node.
            topic_id: returns the id of a topic, by a node that has one of its partitions, the name, and the partition.
        """
        self._dial = dial
        self._topic_id = topic_id
        self._links: set[Link] = set()
        self._lasting: list[Cut | Delay | Lie | Redirect] = []
        self._told: dict[Lie, lies.About] = {}
        self._counted: list[_Counted] = []
        self._held: list[_Held] = []

    def in_force(self) -> list[Fault]:
        """Return the faults in force, with the counts that are left."""
        return [*self._lasting, *(replace(one.fault, count=one.left) for one in self._counted if one.left)]

    def put_in_force(self, faults: Iterable[Fault]) -> None:
        """Replace all faults; what was held back is delivered."""
        self._lasting, self._counted, self._told = [], [], {}
        for fault in faults:
            if isinstance(fault, Cut | Delay | Lie | Redirect):
                self._lasting.append(fault)
            else:
                self._counted.append(_Counted(fault, fault.count))
        held, self._held = self._held, []
        for one in held:
            one.deliver(None)
        for link in list(self._links):
            self._impair(link)

    def leads_to(self, link: Link) -> int | None:
        """Return to which other port a new connection leads; None: to its node."""
        moved = (one for one in self._lasting if isinstance(one, Redirect) and one.moves(link.source, link.target))
        return next((one.port for one in moved), None)

    def opened(self, link: Link, transport: asyncio.Transport) -> None:
        """See canary.lab.proxy.link."""
        self._dial(link, transport)
        self._links.add(link)
        self._impair(link)

    def closed(self, link: Link) -> None:
        """See canary.lab.proxy.link."""
        self._links.discard(link)

    def asked(self, link: Link, frame: bytes) -> None:
        """See canary.lab.proxy.link."""
        lasting = [one for one in self._lasting if isinstance(one, Lie)]
        looks = self._counted or lasting or any(one.api for one in self._delays())
        request = frames.request(frame) if looks else None
        if request is None:
            link.requests.put(frame)
        elif isinstance(fault := self._happening(Hold, request, link), Hold):
            link.holding += 1
            self._held.append(_Held(fault, link, frame, request, fault.until_count))
        else:
            if self._happening(LoseAnswers, request, link) is not None:
                link.lose(request.correlation)
            for one in self._counted:
                if isinstance(one.fault, ShiftFetch) and one.fault.concerns(request, link.source, link.target):
                    link.alter(request.correlation, partial(self._shift, one, one.fault, link.target, request.version))
            for lie in lasting:
                if lie.concerns(request, link.source, link.target):
                    link.alter(request.correlation, partial(self._lie, lie, link.target, request.version))
            self._forward(link, frame, request)

    def _lie(self, lie: Lie, node: int, version: int, frame: bytes) -> bytes:
        """Return what is answered in place of an answer, as long as the lie is in force."""
        if lie not in self._lasting:
            return frame
        about = self._told.setdefault(lie, lies.About(lie.topic))
        about.id = about.id or self._topic_id(node, lie.topic, 0)
        return lies.falsified(frame, version, lie.lie, about)

    def _shift(self, counted: _Counted, fault: ShiftFetch, node: int, version: int, frame: bytes) -> bytes:
        """Return what a reader gets in place of an answer to Fetch."""
        if not counted.left or not any(one is counted for one in self._counted):  # it was replaced meanwhile
            return frame
        topics = frozenset({fault.topic.encode(), self._topic_id(node, fault.topic, fault.partition)})
        changed = fetched.shifted(frame, version, topics, fault.partition, fault.how)
        if changed is None:
            return frame
        counted.left -= 1
        return changed

    def _forward(self, link: Link, frame: bytes, request: Request) -> None:
        """Send a request on, and those that were held back until it came."""
        due = self._due(request)
        for one in due:
            if one.fault.release == "before":
                one.deliver(None if one.link is link else link.requests)
        link.requests.put(frame, self._delay_s(link.source, link.target, request.api))
        for one in due:
            if one.fault.release == "before":
                continue
            if one.link is link:
                one.deliver(None)
            else:
                link.at_answer(request.correlation, partial(one.deliver, link.answers))

    def _happening(
        self, kind: type[Hold] | type[LoseAnswers], request: Request, link: Link
    ) -> Hold | LoseAnswers | None:
        """Return the first fault of a kind that happens to a request, and count it; None if there is none."""
        for one in self._counted:
            if one.left and isinstance(one.fault, kind) and one.fault.concerns(request, link.source, link.target):
                one.left -= 1
                return one.fault
        return None

    def _due(self, request: Request) -> list[_Held]:
        """Return, and hold no longer, what was to be held back until this request."""
        for one in self._held:
            if (one.fault.until_api, one.request.client) == (request.api, request.client):
                one.left -= 1
        due = [one for one in self._held if one.left == 0]
        self._held = [one for one in self._held if one.left > 0]
        return due

    def _impair(self, link: Link) -> None:
        """Cut, or slow, the streams of a connection as the faults in force say."""
        ends = (link.source, link.target)
        for stream, (source, target) in ((link.requests, ends), (link.answers, ends[::-1])):
            stream.cut = any(one.stops(source, target) for one in self._lasting if isinstance(one, Cut))
            stream.delay_s = self._delay_s(source, target)
            stream.flush()

    def _delays(self) -> list[Delay]:
        return [one for one in self._lasting if isinstance(one, Delay)]

    def _delay_s(self, source: Party, target: Party, api: str | None = None) -> float:
        """Return how much later bytes arrive; with an API, how much later than other bytes its requests do."""
        return sum(one.seconds for one in self._delays() if one.slows(source, target, api))

"""One connection through the proxy: what its client asks, and what the node answers."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from canary.lab.proxy.faults import Party
from canary.lab.proxy.frames import answered
from canary.lab.proxy.stream import End, Stream


class Network(Protocol):
    """What decides about connections."""

    def opened(self, link: "Link", transport: asyncio.Transport) -> None:
        """Take a connection that was just opened; ``transport`` leads to its client."""

    def asked(self, link: "Link", frame: bytes) -> None:
        """Take a request."""

    def closed(self, link: "Link") -> None:
        """Forget a connection of which both ends are closed."""


class Link:
    """A connection: the client's end, the node's end, and a stream in each direction.

    Attributes:
        source: who opened it; known once it is open.
        target: the node it leads to.
        holding: how many of its requests are held back. As long as there are, the node's end stays open.
    """

    def __init__(self, network: Network, target: int, *, framed: bool) -> None:
        """Take the node it leads to, and whether that speaks Kafka's protocol."""
        self.source: Party = "client"
        self.target = target
        self.holding = 0
        self.requests = Stream(self._every_request_passed)
        self.client = End(self._opened, self._asked, self._client_closed, framed=framed)
        self.answers = Stream(self.client.close)
        self.node = End(self.requests.connect, self._answered, self.node_closed, framed=framed)
        self.client.other, self.node.other = self.node, self.client
        self._network = network
        self._at_answer: dict[int, list[Callable[[], None]]] = {}  # by correlation id
        self._changes: dict[int, list[Callable[[bytes], bytes]]] = {}  # by correlation id
        self._lost: set[int] = set()  # correlation ids
        self._client_gone = self._no_more_requests = self._node_gone = False

    def lose(self, correlation: int) -> None:
        """Close the connection in place of the answer to a request."""
        self._lost.add(correlation)

    def alter(self, correlation: int, change: Callable[[bytes], bytes]) -> None:
        """Pass on something else in place of the answer to a request."""
        self._changes.setdefault(correlation, []).append(change)

    def at_answer(self, correlation: int, then: Callable[[], None]) -> None:
        """Do something once a request is answered, before the answer goes on, or when it cannot be any more."""
        if self._node_gone:
            then()
        else:
            self._at_answer.setdefault(correlation, []).append(then)

    def node_closed(self) -> None:
        """Take that the node closed the connection, or never took it."""
        self._node_gone = True
        waiting = [then for some in self._at_answer.values() for then in some]
        self._at_answer.clear()
        for then in waiting:
            then()
        self.answers.put(None)
        self._forget_if_closed()

    def close_node_if_done(self) -> None:
        """Close the node's end once the client has gone, and no answer matters any more."""
        if self._no_more_requests and not self.holding and not self._at_answer:
            self.node.close()

    def _opened(self, transport: asyncio.Transport) -> None:
        self._network.opened(self, transport)
        self.answers.connect(transport)

    def _asked(self, frame: bytes) -> None:
        self._network.asked(self, frame)

    def _answered(self, frame: bytes) -> None:
        correlation = answered(frame)
        if correlation is not None:
            for then in self._at_answer.pop(correlation, ()):
                then()
            for change in self._changes.pop(correlation, ()):
                frame = change(frame)
        if correlation in self._lost:
            self.answers.put(None)
            self.node.close()
        else:
            self.answers.put(frame)
        self.close_node_if_done()

    def _client_closed(self) -> None:
        self._client_gone = True
        self.requests.put(None)
        self._forget_if_closed()

    def _every_request_passed(self) -> None:
        self._no_more_requests = True
        self.close_node_if_done()

    def _forget_if_closed(self) -> None:
        if self._client_gone and self._node_gone:
            self._network.closed(self)

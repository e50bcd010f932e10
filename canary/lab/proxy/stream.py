"""One direction of a connection through the proxy, and an end of a connection."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

from canary.lab.proxy.frames import Frames


class Stream:
    """Frames on their way to one end of a connection, in order; they wait while it is cut, delayed or blocked.

    Attributes:
        cut: nothing passes.
        delay_s: how much later each frame arrives that comes from now on.
        blocked: how many answers on other connections have to come first.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        """Take what ends the connection, once everything before has been delivered."""
        self.cut = False
        self.delay_s = 0.0
        self.blocked = 0
        self._end = end
        self._to: asyncio.Transport | None = None
        self._waiting: deque[tuple[float, bytes | None]] = deque()  # when it is due, by the loop's clock; None: the end
        self._timer: asyncio.TimerHandle | None = None

    def connect(self, to: asyncio.Transport) -> None:
        """Deliver there from now on."""
        self._to = to
        self.flush()

    def put(self, frame: bytes | None, later_s: float = 0.0) -> None:
        """Deliver a frame when it may pass; None: the connection's end, at which a cut forgets what it stopped.

        ``later_s``: how much later still it arrives, and with it what follows.
        """
        if frame is None and self.cut:
            self._waiting.clear()
        self._waiting.append((asyncio.get_running_loop().time() + self.delay_s + later_s, frame))
        self.flush()

    def unblock(self) -> None:
        """Take that one answer fewer has to come first."""
        self.blocked -= 1
        self.flush()

    def flush(self) -> None:
        """Deliver what may pass now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        while self._waiting and self._to is not None and not (self.cut or self.blocked):
            due, frame = self._waiting[0]
            if due > loop.time():
                self._timer = loop.call_at(due, self.flush)
                return
            self._waiting.popleft()
            if frame is None:
                self._end()
            elif not self._to.is_closing():
                self._to.write(frame)


class End(asyncio.Protocol):
    """One end of a connection, as the proxy sees it: what arrives there, and its closing."""

    def __init__(
        self,
        opened: Callable[[asyncio.Transport], None],
        arrived: Callable[[bytes], None],
        closed: Callable[[], None],
        *,
        framed: bool,
    ) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: End | None = None
        self._opened = opened
        self._arrived = arrived
        self._closed = closed
        self._frames = Frames(framed=framed)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell who it is."""
        self.transport = cast("asyncio.Transport", transport)
        self._opened(self.transport)

    def data_received(self, data: bytes) -> None:
        """Hand on every whole frame."""
        for frame in self._frames.feed(data):
            self._arrived(frame)

    def connection_lost(self, error: Exception | None) -> None:
        """Hand on that it is closed, in whichever way."""
        del error
        self._closed()

    def close(self) -> None:
        """Close it, once what was written has gone."""
        if self.transport is not None:
            self.transport.close()

    def pause_writing(self) -> None:
        """Take no more from the other end than this one takes."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

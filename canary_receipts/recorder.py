"""Gathers receipts and has them written, in a thread of its own, at most a few a slot of time."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from canary.facts.digests import digest
from canary_receipts.files import Files
from canary_receipts.rows import Counts, Rows, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable
    from weakref import ref

    from canary_receipts.options import Options
    from canary_receipts.topic_ids import TopicIds

log = logging.getLogger("canary_receipts")

SLOT_S: Final = 0.1
"""Receipts are allowed for so long a time at once."""
MOST_MESSAGES: Final = 4096
"""Messages that wait for the thread; a client that delivers faster takes their receipts itself."""
PROMISED, IN_DOUBT, ABORTED = "promised", "in-doubt", "aborted"
MOST_FILES: Final = 4
"""What cannot be written is held while it is less than so many files."""


class Recorder:
    """Takes acknowledgements and publishes files of receipts until it is closed.

    ``producer`` leads to the producer, whose gate it opens at each slot; where that is gone, the recorder ends.
    """

    def __init__(
        self, options: Options, name: str, producer: ref[Any], topic_ids: TopicIds | None, files: Files | None = None
    ) -> None:
        assert options.directory is not None  # noqa: S101  # who makes one has looked
        self._options = options
        self._producer = producer
        self._topic_ids = topic_ids
        self._files = files or Files(options.directory, name, options.per_second)
        self._pid = os.getpid()
        self._pending: deque[tuple[Any, int, Transaction | None, Any]] = deque()
        self._open: list[Transaction] = []
        self._topics: set[str] = set()
        self._rows = Rows()
        self._counts = Counts()
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._complained = False
        self._published = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="canary-receipts", daemon=True)

    def start(self) -> None:
        """Begin."""
        atexit.register(self._exit)
        self._let()
        self._thread.start()

    def transaction(self) -> Transaction:
        """Return a transaction that begins."""
        made = Transaction()
        with self._lock:
            self._open.append(made)
        return made

    def delivered(
        self, given: Callable[..., Any] | None, transaction: Transaction | None, headers: Any, error: Any, message: Any
    ) -> None:
        """Note what became of a record, then tell the application's own callback, if it has ``given`` one."""
        if error is None:
            self._pending.append((message, time.time_ns(), transaction, headers))
            if len(self._pending) >= MOST_MESSAGES:
                self._guarded(self._drain)
        else:
            self._counts.failed += 1
        if given is not None:
            given(error, message)

    def close(self, *, whole: bool) -> None:
        """Publish what is there, for the last time; ``whole``: nothing more will be acknowledged."""
        atexit.unregister(self._exit)
        if self._pid != os.getpid() or self._stopping.is_set():
            return
        self._stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join(30.0)
        with self._lock:
            self._guarded(self._drain)
            for one in self._open:  # nobody will learn how it ended
                one.outcome = one.outcome or IN_DOUBT
            self._guarded(self._settle)
            self._guarded(lambda: self._publish(closed=whole))
            self._counts.dropped += len(self._rows)
            if self._topic_ids is not None:
                self._topic_ids.close()

    def _exit(self) -> None:
        """Close at the end of the interpreter: nothing is outstanding of a producer that was flushed."""
        producer = self._producer()
        self.close(whole=producer is not None and not len(producer))

    def _run(self) -> None:
        while not self._stopping.wait(SLOT_S):
            if self._producer() is None:
                self.close(whole=False)
                return
            self._let()
            self._guarded(self._tick)

    def _let(self) -> None:
        """Allow the receipts of a slot."""
        producer = self._producer()
        if producer is not None and not self._stopping.is_set():
            most = self._options.per_second
            producer._open(1 << 62 if most is None else max(1, round(most * SLOT_S)))  # noqa: SLF001  # its own gate

    def _guarded(self, act: Callable[[], None]) -> None:
        """Do what must not break the application; complain once until it works again."""
        try:
            act()
        except Exception as error:  # noqa: BLE001  # as said
            if not self._complained:
                self._complained = True
                log.warning("receipts cannot be written, the application goes on: %s: %s", type(error).__name__, error)

    def _tick(self) -> None:
        with self._lock:
            self._drain()
            self._settle()
            due = time.monotonic() - self._published >= self._options.every_s
            if due or len(self._rows) >= self._options.rows:
                self._published = time.monotonic()
                self._publish()

    def _drain(self) -> None:
        """Turn messages into rows."""
        with self._lock:
            pending = self._pending
            while pending:
                message, acked_ns, transaction, headers = pending.popleft()
                offset = message.offset()
                if offset is None or offset < 0:
                    self._counts.without_offset += 1
                    continue
                rows = self._rows if transaction is None else transaction.rows
                rows.topic.append(topic := message.topic())
                rows.partition.append(message.partition())
                rows.offset.append(offset)
                kind, timestamp = message.timestamp()
                rows.timestamp.append(timestamp if kind else -1)
                rows.acked_ns.append(acked_ns)
                rows.digest.append(digest(message.key(), message.value(), _as_sent(headers) if headers else None))
                rows.transactional.append(transaction is not None)
                rows.in_doubt.append(False)
                if topic not in self._topics:
                    self._topics.add(topic)
                    if self._topic_ids is not None:
                        self._topic_ids.look(topic)
                if transaction is not None and transaction not in self._open:  # told late, by another thread
                    self._open.append(transaction)

    def _settle(self) -> None:
        """Take the receipts of transactions that have ended."""
        still = []
        held = 0
        for one in self._open:
            if one.outcome is None:
                still.append(one)
                held += len(one.rows)
                continue
            rows, one.rows = one.rows, Rows()
            if one.outcome == ABORTED:
                self._counts.aborted += len(rows)
                continue
            if one.outcome == IN_DOUBT:
                rows.in_doubt = bytearray(b"\x01" * len(rows))
            self._rows.add(rows)
        self._open = still
        if held > MOST_FILES * self._options.rows:  # a transaction that never ends
            self._counts.dropped += held
            for one in still:
                one.rows = Rows()

    def _publish(self, *, closed: bool = False) -> None:
        """Write the rows; what cannot be written is tried again with the next ones, while memory is for them."""
        rows = self._rows
        if not len(rows) and not closed:
            return
        ids = self._topic_ids.confirmed(set(rows.topic)) if self._topic_ids is not None else {}
        self._counts.receipts += len(rows)
        try:
            self._files.publish(rows, self._counts, ids, closed=closed)
        except BaseException:
            self._counts.receipts -= len(rows)
            if len(rows) >= MOST_FILES * self._options.rows:
                self._counts.dropped += len(rows)
                self._rows = Rows()
            raise
        self._rows = Rows()
        self._complained = False


def _as_sent(headers: Any) -> list[tuple[str, bytes | None]]:
    """Return headers as the client sends them: text in UTF-8."""
    sent = []
    for name, value in headers:
        with suppress(AttributeError):
            value = value.encode()  # noqa: PLW2901  # text
        sent.append((name, None if value is None else bytes(value)))
    return sent

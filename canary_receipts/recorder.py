"""Gathers receipts, at most a few a slot of time, and has them written: each in a thread of its own.

The application's threads only ever append to a queue. The one thread turns what is there into rows; the other writes
them, and may wait for a disk as long as it likes: nobody waits for it but `Recorder.close`, and that not for long.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from canary.facts.digests import digest
from canary_receipts.files import Files
from canary_receipts.rows import Counts, Rows, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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
"""Receipts are held for so many files: what cannot be written, is being written, or waits for a transaction's end."""
RETRY_S: Final = 10.0
"""What could not be written is tried again after so long."""
CLOSING_S: Final = 10.0
"""So long the application waits at its end for the last file."""


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
        self._pending: deque[tuple[Any, int, Transaction | None, Sequence[Any] | None]] = deque()
        self._open: list[Transaction] = []
        self._topics: dict[str, int] = {}
        self._new_topics: list[str] = []
        self._rows = Rows()
        self._held = 0  # rows anywhere: here, in transactions, and on their way to the disk
        self._counts = Counts()
        self._lock = threading.RLock()  # never held while anything outside this process is waited for
        self._allowed = 0.0
        self._cluster_id: str | None = None
        self._stopping = threading.Event()
        self._full = threading.Event()
        self._whole = False
        self._complained = False
        self._thread = threading.Thread(target=self._gather, name="canary-receipts", daemon=True)
        self._writer = threading.Thread(target=self._write, name="canary-receipts-files", daemon=True)

    def start(self) -> None:
        """Begin."""
        atexit.register(self._exit)
        self._let()
        self._thread.start()
        self._writer.start()

    def transaction(self) -> Transaction:
        """Return a transaction that begins."""
        made = Transaction()
        with self._lock:
            self._open.append(made)
        return made

    def delivered(
        self,
        given: Callable[..., Any] | None,
        transaction: Transaction | None,
        headers: Sequence[Any] | None,
        error: Any,
        message: Any,
    ) -> None:
        """Note what became of a record, then tell the application's own callback, if it has ``given`` one.

        ``headers``: those that were sent; None: not known.
        """
        if error is None:
            self._pending.append((message, time.time_ns(), transaction, headers))
            if len(self._pending) >= MOST_MESSAGES:
                self._guarded(self._drain)
        else:
            self._counts.failed += 1
        if given is not None:
            given(error, message)

    def close(self, *, whole: bool) -> None:
        """Have what is there published for the last time; ``whole``: nothing more will be acknowledged."""
        atexit.unregister(self._exit)
        if self._pid != os.getpid() or self._stopping.is_set():
            return
        self._whole = whole
        self._stopping.set()
        self._full.set()
        for thread in (self._thread, self._writer):
            if thread is not threading.current_thread():
                thread.join(CLOSING_S)
        if self._writer.is_alive():
            log.warning("receipts are still being written while the producer closes; the last may be lost")

    def _exit(self) -> None:
        """Close at the end of the interpreter: nothing is outstanding of a producer that was flushed."""
        producer = self._producer()
        self.learn_cluster()
        self.close(whole=producer is not None and not len(producer))

    def learn_cluster(self) -> None:
        """Note which cluster it is, once the client knows it; a closed one tells it no more."""
        producer = self._producer()
        if self._cluster_id is None and producer is not None:
            with suppress(KafkaException, RuntimeError):
                self._cluster_id = producer.cluster_id(0)

    def _gather(self) -> None:
        while not self._stopping.wait(SLOT_S):
            if self._producer() is None:
                self.close(whole=False)
                return
            self._let()
            self.learn_cluster()
            self._guarded(self._tick)

    def _let(self) -> None:
        """Allow the receipts of a slot; fewer than ten a second have none in some."""
        producer = self._producer()
        if producer is None or self._stopping.is_set():
            return
        most = self._options.per_second
        if most is None:
            producer._open(1 << 62)  # noqa: SLF001  # its own gate
            return
        self._allowed += most * SLOT_S
        if (now := int(self._allowed + 1e-9)) > 0:
            self._allowed -= now
            producer._open(now)  # noqa: SLF001  # as above

    def _guarded(self, act: Callable[[], None]) -> bool:
        """Do what must not break the application, and return whether it worked; complain once until it does again."""
        try:
            act()
        except Exception as error:  # noqa: BLE001  # as said
            if not self._complained:
                self._complained = True
                log.warning("receipts cannot be written, the application goes on: %s: %s", type(error).__name__, error)
            return False
        return True

    def _tick(self) -> None:
        with self._lock:
            self._drain()
            self._settle()
            if len(self._rows) >= self._options.rows:
                self._full.set()
        self._ask_ids()

    def _ask_ids(self) -> None:
        """Ask for the ids of topics that had their first receipt."""
        with self._lock:
            asked, self._new_topics = self._new_topics, []
        if asked and self._topic_ids is not None:
            self._topic_ids.look(asked)

    def _drain(self) -> None:
        """Turn messages into rows."""
        with self._lock:
            pending = self._pending
            most = MOST_FILES * self._options.rows
            while pending:
                message, acked_ns, transaction, headers = pending.popleft()
                offset = message.offset()
                if offset is None or offset < 0:
                    self._counts.without_offset += 1
                    continue
                if self._held >= most:
                    self._counts.dropped += 1
                    continue
                kind, timestamp = message.timestamp()
                known = headers is not None
                content = digest(message.key(), message.value(), _as_sent(headers) if headers else None) if known else 0
                rows = self._rows if transaction is None else transaction.rows
                rows.topic.append(self._place(message.topic()))
                rows.partition.append(message.partition())
                rows.offset.append(offset)
                rows.timestamp.append(timestamp if kind else -1)
                rows.acked_ns.append(acked_ns)
                rows.digest.append(content)
                rows.digested.append(known)
                rows.transactional.append(transaction is not None)
                rows.in_doubt.append(False)
                self._held += 1
                if transaction is not None and transaction not in self._open:  # told late, by another thread
                    self._open.append(transaction)

    def _place(self, topic: str) -> int:
        place = self._topics.get(topic)
        if place is None:
            place = self._topics[topic] = len(self._topics)
            self._new_topics.append(topic)
        return place

    def _settle(self) -> None:
        """Take the receipts of transactions that have ended."""
        still = []
        for one in self._open:
            if one.outcome is None:
                still.append(one)
                continue
            rows, one.rows = one.rows, Rows()
            if one.outcome == ABORTED:
                self._counts.aborted += len(rows)
                self._held -= len(rows)
                continue
            if one.outcome == IN_DOUBT:
                rows.in_doubt = bytearray(b"\x01" * len(rows))
            self._rows.add(rows)
        self._open = still

    def _write(self) -> None:
        """Publish a file whenever one is due, and the last one at the end."""
        while not self._stopping.is_set():
            self._full.wait(self._options.every_s)
            self._full.clear()
            if not self._stopping.is_set() and not self._guarded(self._publish):
                self._stopping.wait(min(RETRY_S, self._options.every_s))
        self._guarded(self._last)

    def _last(self) -> None:
        with self._lock:
            self._drain()
            for one in self._open:  # nobody will learn how it ended
                one.outcome = one.outcome or IN_DOUBT
            self._settle()
        self._ask_ids()  # a producer may live for less than a slot
        self._publish(closed=True)
        if self._topic_ids is not None:
            self._topic_ids.close()

    def _publish(self, *, closed: bool = False) -> None:
        """Write the rows; what cannot be written is tried again with the next ones."""
        with self._lock:
            rows, self._rows = self._rows, Rows()
            counts = replace(self._counts, receipts=self._counts.receipts + len(rows))
            topics = list(self._topics)
        if not len(rows) and not closed:
            return
        try:
            named = {topics[place] for place in set(rows.topic)}
            ids = self._topic_ids.confirmed(named) if self._topic_ids is not None else {}
            known = {"closed": closed and self._whole, "topic_ids": ids, "cluster_id": self._cluster_id}
            self._files.publish(rows, topics, counts, known)
        except BaseException:
            again = Rows()  # another one: Arrow may still look at the columns of this one, which cannot grow then
            again.add(rows)
            with self._lock:
                again.add(self._rows)
                self._rows = again
            raise
        with self._lock:
            self._counts.receipts += len(rows)
            self._held -= len(rows)
        if self._topic_ids is not None:
            self._topic_ids.published()
        self._complained = False


def _as_sent(headers: Sequence[Any]) -> list[tuple[str, bytes | None]]:
    """Return headers as the client sends them: text in UTF-8."""
    sent = []
    for name, value in headers:
        with suppress(AttributeError):
            value = value.encode()  # noqa: PLW2901  # text
        sent.append((name, None if value is None else bytes(value)))
    return sent

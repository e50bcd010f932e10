"""The producer: that of confluent-kafka, with a receipt for what is acknowledged.

A call of Python for each record is what costs, so of many records most have none. ``produce`` of this class asks for a
receipt; after as many as a slot of time may have, the instance gets an attribute ``produce`` that is the client's own
method, written in C, and the recorder's thread takes it away again when the next slot begins. So a producer of 100,000
records a second runs the client's own code for nearly all of them, and one of some hundred a second gets a receipt for
each.
"""

import logging
from collections.abc import Mapping, MutableMapping, Sequence
from functools import partial
from types import BuiltinMethodType
from typing import Any, Final
from weakref import ref

import confluent_kafka

from canary_receipts.options import Options
from canary_receipts.recorder import ABORTED, PROMISED, Recorder
from canary_receipts.rows import Transaction
from canary_receipts.topic_ids import TopicIds

log = logging.getLogger("canary_receipts")

_POSITIONAL: Final = ("partition", "callback", "on_delivery", "timestamp", "headers")
"""What may follow topic, value and key in a call of ``produce``."""
_ONLY_ERRORS: Final = "delivery.report.only.error"


class Producer(confluent_kafka.Producer):  # type: ignore[misc]  # the client has no types
    """A producer of confluent-kafka that writes receipts.

    Args:
        *arguments: as of confluent_kafka.Producer.
        receipts: `Options` by their names; what is left out comes from the environment.
        **properties: as of confluent_kafka.Producer.

    Raises:
        ValueError: an option of the receipts is unknown or wrong.

    Receipts never block the application, and an error in writing them is logged and counted, not raised. Without a
    directory there are none, and this is the client's own producer.
    """

    def __init__(self, *arguments: Any, receipts: Mapping[str, Any] | None = None, **properties: Any) -> None:
        options = Options.of(receipts)
        super().__init__(*arguments, **properties)
        config: dict[str, Any] = {**(arguments[0] if arguments else {}), **properties}
        self._bare = super().produce
        self._commit = super().commit_transaction
        self._left = 0
        self._default = config.get("on_delivery")
        self._transaction: Transaction | None = None
        self._recorder: Recorder | None = None
        self._sees_headers = isinstance(self._bare, BuiltinMethodType) and "plugin.library.paths" not in config
        self._passes = type(self).produce is Producer.produce
        if options.directory is not None and str(config.get(_ONLY_ERRORS, False)).lower() in {"true", "1"}:
            log.warning("no receipts are written: with %s the client does not tell what was acknowledged", _ONLY_ERRORS)
        elif options.directory is not None:
            topic_ids = TopicIds(config) if options.topic_ids else None
            self._recorder = Recorder(options, options.producer_name(config), ref(self), topic_ids)
            self._recorder.start()
            return
        self._shut()

    def _open(self, receipts: int) -> None:
        """Let so many of the next records have a receipt."""
        self._left = receipts
        if self.__dict__.get("produce") is self._bare:
            self.__dict__.pop("produce", None)

    def _shut(self) -> None:
        """Let the client's own method be called. What an application has put in its place stays."""
        self._left = 0
        if self._passes:
            self.__dict__.setdefault("produce", self._bare)

    def produce(self, topic: str, value: Any = None, key: Any = None, *more: Any, **named: Any) -> None:
        """Send a record, as confluent_kafka.Producer.produce does."""
        if self._recorder is None or self._left <= 0:
            self._shut()
            self._bare(topic, value, key, *more, **named)
            return
        self._left -= 1
        if more:
            named.update(zip(_POSITIONAL, more, strict=False))
        given = named.pop("callback", None)  # it counts before the other, as the client has it
        if given is None:
            given = named.get("on_delivery")
        headers = named.get("headers")
        noted = tuple(headers.items() if isinstance(headers, dict) else headers) if headers else ()
        named["on_delivery"] = self._noting(given, noted if self._sees_headers else None)
        self._bare(topic, value, key, **named)

    def produce_batch(self, topic: str, messages: Sequence[MutableMapping[str, Any]], *more: Any, **named: Any) -> int:
        """Send records, as confluent_kafka.Producer.produce_batch does; each may have a receipt."""
        if self._recorder is None or self._left <= 0:
            return int(super().produce_batch(topic, messages, *more, **named))
        named.update(zip(("partition", "callback", "on_delivery"), more, strict=False))
        given = named.get("callback")
        given = named.get("on_delivery") if given is None else given
        noted: list[MutableMapping[str, Any]] = []  # copies: the application may send its own again
        for message in messages[: self._left]:
            own = message.get("callback")
            noted.append({**message, "callback": self._noting(given if own is None else own, ())})
        self._left -= len(noted)
        sent = int(super().produce_batch(topic, [*noted, *messages[len(noted) :]], **named))
        for message, copy in zip(messages, noted, strict=False):
            if "_error" in copy:
                message["_error"] = copy["_error"]
        return sent

    def _noting(self, given: Any, headers: tuple[Any, ...] | None) -> Any:
        """Return a callback that notes a receipt and calls the application's, the default one if none is given."""
        assert self._recorder is not None  # noqa: S101  # who asks has looked
        return partial(self._recorder.delivered, self._default if given is None else given, self._transaction, headers)

    def begin_transaction(self, *arguments: Any) -> None:
        """Begin a transaction; its receipts wait for its end."""
        super().begin_transaction(*arguments)
        if self._recorder is not None:
            self._transaction = self._recorder.transaction()

    def commit_transaction(self, *arguments: Any) -> None:
        """Commit; only now are the receipts promises. Where this fails they are in doubt, unless it succeeds later."""
        self._commit(*arguments)
        self._end(PROMISED)

    def abort_transaction(self, *arguments: Any) -> None:
        """Abort; nothing was promised."""
        super().abort_transaction(*arguments)
        self._end(ABORTED)

    def _end(self, outcome: str) -> None:
        if self._transaction is not None:
            self._transaction.outcome = outcome
            self._transaction = None

    def close(self, *arguments: Any, **named: Any) -> Any:
        """Close the producer, and publish the last file of receipts."""
        self._learn()
        try:
            return super().close(*arguments, **named)
        finally:
            self.close_receipts()

    def _learn(self) -> None:
        if self._recorder is not None:
            self._recorder.learn_cluster()

    def __exit__(self, *exception: object) -> Any:
        """Close it at the end of a block."""
        self._learn()
        try:
            return super().__exit__(*exception)
        finally:
            self.close_receipts()

    def close_receipts(self) -> None:
        """Publish the last file of receipts; records that are delivered later get none. Call it after ``flush``."""
        if self._recorder is not None:
            self._recorder.close(whole=True)
            self._shut()

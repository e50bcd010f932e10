"""The producer: that of confluent-kafka, with a receipt for what is acknowledged.

A call of Python for each record is what costs, so of many records most have none. ``produce`` of this class asks for a
receipt; after as many as a slot of time may have, the instance gets an attribute ``produce`` that is the client's own
method, written in C, and the recorder's thread takes it away again when the next slot begins. So a producer of 100,000
records a second runs the client's own code for nearly all of them, and one of some hundred a second gets a receipt for
each.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, Final
from weakref import ref

import confluent_kafka

from canary_receipts.options import Options
from canary_receipts.recorder import ABORTED, PROMISED, Recorder
from canary_receipts.rows import Transaction
from canary_receipts.topic_ids import TopicIds

_POSITIONAL: Final = ("partition", "callback", "on_delivery", "timestamp", "headers")
"""What may follow topic, value and key in a call of ``produce``."""


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
        if options.directory is None:
            self.__dict__["produce"] = self._bare
            return
        topic_ids = TopicIds(config) if options.topic_ids else None
        self._recorder = Recorder(options, options.producer_name(config), ref(self), topic_ids)
        self._recorder.start()

    def _open(self, receipts: int) -> None:
        """Let so many of the next records have a receipt."""
        self._left = receipts
        self.__dict__.pop("produce", None)

    def produce(self, topic: str, value: Any = None, key: Any = None, *more: Any, **named: Any) -> None:
        """Send a record, as confluent_kafka.Producer.produce does."""
        if self._recorder is None or self._left <= 0:
            self.__dict__["produce"] = self._bare
            self._bare(topic, value, key, *more, **named)
            return
        self._left -= 1
        if more:
            named.update(zip(_POSITIONAL, more, strict=False))
        given = named.pop("callback", None)
        given = named.pop("on_delivery", None) or given or self._default
        headers = named.get("headers")
        noted = tuple(headers.items() if isinstance(headers, dict) else headers) if headers else ()
        named["on_delivery"] = partial(self._recorder.delivered, given, self._transaction, noted)
        self._bare(topic, value, key, **named)

    def produce_batch(self, topic: str, messages: Sequence[MutableMapping[str, Any]], *more: Any, **named: Any) -> int:
        """Send records, as confluent_kafka.Producer.produce_batch does; each may have a receipt."""
        named.update(zip(("partition", "callback", "on_delivery"), more, strict=False))
        if self._recorder is not None and self._left > 0:
            given = named.pop("callback", None)
            given = named.pop("on_delivery", None) or given or self._default
            for message in messages[: self._left]:
                own = message.get("callback", given)
                while isinstance(own, partial) and own.func == self._recorder.delivered:  # it is sent again
                    own = own.args[0]
                message["callback"] = partial(self._recorder.delivered, own, self._transaction, ())
            self._left -= len(messages)
            if given is not None:
                named["on_delivery"] = given
        return int(super().produce_batch(topic, messages, **named))

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

    def close(self, *arguments: Any) -> Any:
        """Close the producer, and publish the last file of receipts."""
        try:
            return super().close(*arguments)
        finally:
            self.close_receipts()

    def __exit__(self, *exception: object) -> Any:
        """Close it at the end of a block."""
        try:
            return super().__exit__(*exception)
        finally:
            self.close_receipts()

    def close_receipts(self) -> None:
        """Publish the last file of receipts; records that are delivered later get none. Call it after ``flush``."""
        if self._recorder is not None:
            self.__dict__["produce"] = self._bare
            self._recorder.close(whole=True)

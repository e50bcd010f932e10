"""What an error of a transactional producer proves. One table, and nothing else decides.

An error filed as a definite abort makes every later read of the transaction an aborted read (G1a); an error filed as
indeterminate hides a real one: Jepsen's first analysis of Kafka's own client was wrong in just this way
(jepsen-redpanda 3.6: InvalidTxnState on a retried commit, #3616; NotLeaderOrFollower, KAFKA-13574). So each row was
measured (FIELD-NOTES, "Transactions: what an error proves": 4,938 random and 46 directed transactions read back), and
whatever no row names is indeterminate. Neither ``retriable()`` nor the code alone decides: ``_TIMED_OUT`` has three
meanings, told apart by flags and text.
"""

from dataclasses import dataclass
from typing import Literal

from confluent_kafka import KafkaError

Where = Literal["before commit", "commit", "commit again", "abort", "abort after commit"]
"""Which call failed. "before commit": begin, produce, flush, a delivery report, send_offsets. "commit again": a commit
of a transaction for which one was asked before. "abort after commit": an abort of such a transaction."""

Proof = Literal["aborted", "abort", "again", "indeterminate"]
"""aborted: it did not and will not commit. abort: it will not have committed once an abort is acknowledged. again:
nothing yet, call commit again on the same instance. indeterminate: it may have committed or not; close the client."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what matches, what that proves, and where it is known from. None matches anything."""

    where: frozenset[Where]
    proof: Proof
    source: str
    code: int | None = None
    fatal: bool | None = None
    abortable: bool | None = None
    retriable: bool | None = None
    text: str = ""

    def matches(self, where: Where, error: KafkaError) -> bool:
        """Say whether this line is about ``error`` of the call ``where``."""
        return (
            where in self.where
            and (self.code is None or error.code() == self.code)
            and (self.fatal is None or error.fatal() == self.fatal)
            and (self.abortable is None or error.txn_requires_abort() == self.abortable)
            and (self.retriable is None or error.retriable() == self.retriable)
            and self.text in error.str()
        )


def _at(*where: Where) -> frozenset[Where]:
    return frozenset(where)


TABLE: tuple[Row, ...] = (
    Row(_at("before commit"), "aborted", "FIELD-NOTES row 1: commit_transaction() never called, never committed"),
    Row(_at("abort"), "aborted", "FIELD-NOTES rows 1 and 3: _FENCED, INVALID_TXN_STATE or none, commit never called"),
    Row(
        _at("commit"),
        "aborted",
        "FIELD-NOTES row 4: EndTxn was not sent",
        code=KafkaError._INCONSISTENT,  # noqa: SLF001  # public in librdkafka
        fatal=False,
        abortable=True,
    ),
    Row(
        _at("commit"),
        "abort",
        "FIELD-NOTES row 5: 10 of 10 not committed",
        code=KafkaError._TIMED_OUT,  # noqa: SLF001  # public in librdkafka
        fatal=False,
        abortable=True,
    ),
    Row(
        _at("commit", "commit again"),
        "again",
        "FIELD-NOTES row 6: none if dropped, all if retried",
        code=KafkaError._TIMED_OUT,  # noqa: SLF001  # public in librdkafka
        fatal=False,
        abortable=False,
        retriable=True,
        text="Failed to flush",
    ),
    Row(
        _at("commit", "commit again"),
        "again",
        "FIELD-NOTES rows 7 and 8: mostly committed, and an abort cannot undo it",
        code=KafkaError._TIMED_OUT,  # noqa: SLF001  # public in librdkafka
        fatal=False,
        abortable=False,
        retriable=True,
        text="Timed out waiting for operation",
    ),
)
"""The first that matches decides. What is not here is indeterminate: commit ``_FENCED`` (row 9: both seen), any other
fatal or ``_STATE`` error of a commit (row 10), INVALID_TXN_STATE on a commit that is made again (#3616), and anything
that an abort says after a commit was asked for (row 8: ``_CONFLICT`` every time, and the commit went through)."""


def proof(where: Where, error: KafkaError) -> Proof:
    """Return what ``error`` of the call ``where`` proves."""
    return next((row.proof for row in TABLE if row.matches(where, error)), "indeterminate")

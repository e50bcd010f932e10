"""What an error proves: nothing that may have committed is ever called aborted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError

from canary.probing.taxonomy import TABLE, proof


@dataclass
class Said:
    number: int
    text: str = ""
    is_fatal: bool = False
    is_retriable: bool = False
    is_abortable: bool = False

    def code(self) -> int:
        return self.number

    def str(self) -> str:
        return self.text

    def fatal(self) -> bool:
        return self.is_fatal

    def retriable(self) -> bool:
        return self.is_retriable

    def txn_requires_abort(self) -> bool:
        return self.is_abortable


TIMED_OUT, FENCED = KafkaError._TIMED_OUT, KafkaError._FENCED
EVERY_CODE = [getattr(KafkaError, name) for name in dir(KafkaError) if isinstance(getattr(KafkaError, name), int)]


@pytest.mark.parametrize("code", EVERY_CODE)
def test_without_a_commit_asked_for_every_error_is_a_definite_abort(code: int) -> None:
    assert proof("before commit", Said(code)) == "aborted"
    assert proof("abort", Said(code, is_fatal=True)) == "aborted"


@pytest.mark.parametrize("code", EVERY_CODE)
def test_an_abort_after_a_commit_was_asked_for_proves_nothing(code: int) -> None:
    assert proof("abort after commit", Said(code)) == "indeterminate"


@pytest.mark.parametrize("code", EVERY_CODE)
@pytest.mark.parametrize("retriable", [True, False])
def test_a_fatal_commit_error_is_indeterminate_whatever_its_code(code: int, retriable: bool) -> None:  # noqa: FBT001
    assert proof("commit", Said(code, is_fatal=True, is_retriable=retriable)) == "indeterminate"
    assert proof("commit again", Said(code, is_fatal=True, is_retriable=retriable)) == "indeterminate"


def test_the_three_meanings_of_timed_out_are_told_apart() -> None:
    assert proof("commit", Said(TIMED_OUT, "whatever", is_abortable=True)) == "abort"
    assert proof("commit", Said(TIMED_OUT, "Failed to flush all outstanding messages", is_retriable=True)) == "again"
    assert proof("commit", Said(TIMED_OUT, "Timed out waiting for operation to finish", is_retriable=True)) == "again"
    assert proof("commit", Said(TIMED_OUT, "something new", is_retriable=True)) == "indeterminate"


def test_an_endtxn_that_was_not_sent_is_definite_only_the_first_time() -> None:
    not_sent = Said(KafkaError._INCONSISTENT, is_abortable=True)
    assert proof("commit", not_sent) == "aborted"
    assert proof("commit again", not_sent) == "indeterminate"
    assert proof("commit again", Said(TIMED_OUT, is_abortable=True)) == "indeterminate"


@pytest.mark.parametrize("code", [KafkaError.INVALID_TXN_STATE, KafkaError.NOT_LEADER_FOR_PARTITION, FENCED])
def test_what_jepsen_found_to_be_indefinite_is_indeterminate(code: int) -> None:
    """#3616 and KAFKA-13574."""
    for retriable in (True, False):
        assert proof("commit again", Said(code, is_retriable=retriable)) == "indeterminate"
        assert proof("commit", Said(code, is_retriable=retriable)) == "indeterminate"


def test_every_row_names_its_source() -> None:
    assert [row for row in TABLE if "FIELD-NOTES" not in row.source] == []

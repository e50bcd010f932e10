"""What an error proves: nothing that may have committed is ever called aborted."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from canary.kafka.transaction_errors import TABLE, Proof, Where, proof

if TYPE_CHECKING:
    from collections.abc import Iterable

TIMED_OUT, FENCED, NOT_SENT = KafkaError._TIMED_OUT, KafkaError._FENCED, KafkaError._INCONSISTENT
CODES = [value for name in dir(KafkaError) if isinstance(value := getattr(KafkaError, name), int)]
FLAGS = [dict(zip(("fatal", "retriable", "txn_requires_abort"), bits, strict=True))
         for bits in itertools.product((False, True), repeat=3)]  # fmt: skip
FLUSH, WAIT = "Failed to flush all outstanding messages", "Timed out waiting for operation to finish"
TEXTS = ["", FLUSH, WAIT]


def proofs(where: Where, errors: Iterable[dict[str, Any]]) -> dict[Proof, list[str]]:
    """Return what errors of the call ``where`` prove, with each error that does."""
    found: dict[Proof, list[str]] = {}
    for fields in errors:
        error = KafkaError(fields["error"], **{name: value for name, value in fields.items() if name != "error"})
        found.setdefault(proof(where, error), []).append(f"{error.name()} {fields}")
    return found


def every(*codes: int, **fixed: Any) -> list[dict[str, Any]]:
    """Return the fields of every error, but for what is ``fixed``."""
    return [
        {"error": code, "reason": text, **flags, **fixed}
        for code in codes or CODES
        for flags in FLAGS
        for text in TEXTS
    ]


def test_without_a_commit_asked_for_every_error_is_a_definite_abort() -> None:
    assert len(CODES) > 150
    for where in ("before commit", "abort"):
        found = proofs(where, every())
        assert set(found) == {"aborted"}, found


def test_an_abort_after_a_commit_was_asked_for_proves_nothing() -> None:
    found = proofs("abort after commit", every())
    assert set(found) == {"indeterminate"}, found


def test_a_fatal_commit_error_is_indeterminate_whatever_its_code() -> None:
    for where in ("commit", "commit again"):
        found = proofs(where, every(fatal=True))
        assert set(found) == {"indeterminate"}, found


def test_a_commit_error_is_definite_for_two_codes_only() -> None:
    for where in ("commit", "commit again"):
        found = proofs(where, every(*(code for code in CODES if code not in {TIMED_OUT, NOT_SENT})))
        assert set(found) == {"indeterminate"}, found


def test_the_three_meanings_of_timed_out_are_told_apart() -> None:
    for reason in TEXTS:
        told = every(TIMED_OUT, reason=reason, fatal=False, txn_requires_abort=True)
        assert set(proofs("commit", told)) == {"abort"}, reason
        assert set(proofs("commit again", told)) == {"indeterminate"}, reason
    for where in ("commit", "commit again"):
        for reason, expected in ((FLUSH, "again"), (WAIT, "again"), ("something new", "indeterminate")):
            told = every(TIMED_OUT, reason=reason, fatal=False, txn_requires_abort=False, retriable=True)
            assert set(proofs(where, told)) == {expected}, reason
            final = every(TIMED_OUT, reason=reason, fatal=False, txn_requires_abort=False, retriable=False)
            assert set(proofs(where, final)) == {"indeterminate"}, reason


def test_an_endtxn_that_was_not_sent_is_definite_only_the_first_time() -> None:
    not_sent = every(NOT_SENT, fatal=False, txn_requires_abort=True)
    assert set(proofs("commit", not_sent)) == {"aborted"}
    assert set(proofs("commit again", not_sent)) == {"indeterminate"}
    assert set(proofs("commit", every(NOT_SENT, fatal=False, txn_requires_abort=False))) == {"indeterminate"}


def test_what_jepsen_found_to_be_indefinite_is_indeterminate() -> None:
    """#3616 and KAFKA-13574."""
    for where in ("commit", "commit again"):
        found = proofs(where, every(KafkaError.INVALID_TXN_STATE, KafkaError.NOT_LEADER_FOR_PARTITION, FENCED))
        assert set(found) == {"indeterminate"}, found


def test_every_row_names_its_source() -> None:
    assert [row for row in TABLE if "FIELD-NOTES" not in row.source] == []

from __future__ import annotations

import dataclasses
import typing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.facts import COLUMNS, FACT_KINDS, ClientError, Fact, Sent, Tick, TopicGone, WatchAsked
from storage.ledger import LedgerError
from storage.ledger.codec import decode_facts, decode_table, encode_facts, stream_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

VALUES: dict[type, SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    str: st.text(max_size=8),
    bool: st.booleans(),
}


def any_fact() -> SearchStrategy[Fact]:
    def of(kind: type[Fact]) -> SearchStrategy[Fact]:
        hints = typing.get_type_hints(kind)
        fields = {}
        for field in dataclasses.fields(kind):
            value = VALUES[COLUMNS[field.name]]
            fields[field.name] = st.none() | value if type(None) in typing.get_args(hints[field.name]) else value
        return st.builds(kind, **fields)

    return st.one_of([of(kind) for kind in FACT_KINDS])


@given(st.lists(any_fact(), min_size=1, max_size=40))
def test_facts_of_every_kind_come_back_equal_and_in_order(facts: list[Fact]) -> None:
    assert decode_facts(encode_facts(facts)) == facts


def rewritten(payload: bytes, change: Any) -> bytes:
    table = change(stream_of(payload).read_all())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def test_facts_of_some_kinds_are_decoded_alone_and_keep_their_order() -> None:
    asked, gone = WatchAsked(1, 1), TopicGone(3, 1, "t")
    payload = encode_facts([asked, Tick(2), gone, Tick(4), asked])
    assert decode_facts(payload, (WatchAsked, TopicGone)) == [asked, gone, asked]
    assert decode_facts(payload, ()) == []


def test_a_column_of_a_later_version_is_ignored_and_a_missing_one_takes_its_default() -> None:
    sent = Sent(1, "t", 0, 7, 1, 3, "plain", None)
    later = rewritten(encode_facts([sent]), lambda table: table.append_column("colour", pa.array(["red"])))
    earlier = rewritten(encode_facts([sent]), lambda table: table.drop_columns(["transaction_id"]))
    assert decode_facts(later) == decode_facts(earlier) == [sent]


def test_a_missing_column_without_a_default_is_named() -> None:
    payload = rewritten(encode_facts([Tick(1)]), lambda table: table.drop_columns(["at_ns"]))
    with pytest.raises(LedgerError, match="at_ns"):
        decode_facts(payload)


def no_text(table: Any) -> Any:
    offsets, content = pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")
    topic = pa.Array.from_buffers(pa.string(), 1, [None, offsets, content])
    return table.set_column(table.column_names.index("topic"), "topic", topic)


@pytest.mark.parametrize(
    "alter", [no_text, lambda table: table.set_column(0, "_kind", pa.array(["Sent"]))], ids=["no text", "no number"]
)
def test_content_that_no_version_wrote_is_an_error_of_the_ledger(alter: Callable[[Any], Any]) -> None:
    payload = rewritten(encode_facts([Sent(1, "t", 0, 7, 1, 3, "plain", None)]), alter)
    for decode in (decode_facts, decode_table):
        with pytest.raises(LedgerError, match="another program"):
            decode(payload)


def test_a_fact_of_a_later_versions_kind_is_left_out_and_the_others_keep_their_order() -> None:
    def renumber(table: Any) -> Any:
        kinds = table.column("_kind").to_pylist()
        kinds[1] = 120
        return table.set_column(0, "_kind", pa.array(kinds, pa.int8()))

    payload = rewritten(encode_facts([Tick(1), Tick(2), Tick(3)]), renumber)
    assert decode_facts(payload) == [Tick(1), Tick(3)]


def test_a_value_of_the_wrong_type_is_refused_when_written() -> None:
    with pytest.raises(TypeError, match="another type"):
        encode_facts([Tick("now")])  # type: ignore[arg-type]


def test_words_that_no_encoding_has_do_not_stop_the_ledger() -> None:
    (fact,) = decode_facts(encode_facts([ClientError(1, "tail", "_X", "half \ud800 a pair")]))
    assert fact == ClientError(1, "tail", "_X", "half \\ud800 a pair")

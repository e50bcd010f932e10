"""Histories from files: what is read, and what is said of files that cannot be."""

from __future__ import annotations

import io
from typing import Any

import orjson
import pytest

from canary.anomalies.offline import check
from canary.history import exploding, reading
from canary.history.columns import COLUMNS, History
from canary.history.errors import HistoryError
from canary.history.operation import Operation
from canary.history.reading import load
from canary.history.writing import write_jsonl
from simulation.histories.simulator import simulate
from simulation.histories.wild import seeded, wild_history
from tests.support.seeds import cases


def read(text: str | bytes, source: str = "h") -> History:
    return load(io.BytesIO(text.encode() if isinstance(text, str) else text), source)


def lines(history: list[dict[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(op) + b"\n" for op in history)


SEND = (
    '{"index":0,"time":1,"process":0,"type":"invoke","f":"send","value":[["send","x",1]]}\n'
    '{"index":1,"time":2,"process":0,"type":"ok","f":"send","value":[["send","x",[7,1]]]}\n'
)
POLL = (
    '{"index":2,"time":3,"process":1,"type":"invoke","f":"poll","value":[["poll"]]}\n'
    '{"index":3,"time":4,"process":1,"type":"ok","f":"poll","value":[["poll",{"x":[[7,1]]}]]}\n'
)


def test_a_history_is_exploded_into_columns() -> None:
    history = read(SEND + POLL)
    assert len(history) == history.operations == 4
    assert history.keys == ["x"]
    assert history.send_offset.tolist() == [-1, 7]
    assert history.read_offset.tolist() == [7]
    assert history.invocation.tolist() == [-1, 0, -1, 2]


def test_an_integer_key_is_its_text_and_an_integer_value_is_not() -> None:
    history = read(
        '{"index":0,"time":1,"process":0,"type":"invoke","f":"send","value":[["send",5,1],["send","5","1"]]}\n'
        '{"index":1,"time":1,"process":0,"type":"ok","f":"send","value":[["send",5,[0,1]],["send","5",[1,"1"]]]}\n'
    )
    assert history.keys == ["5"]
    assert [history.value(code) for code in history.send_value] == [1, "1", 1, "1"]


def test_values_of_all_types_are_told_apart() -> None:
    values = [1, "1", 1.0, True, -5, 2**62, "", "é", 1.5]
    sends = [["send", "x", value] for value in values]
    op = {"index": 0, "time": 0, "process": 0, "type": "invoke", "f": "send", "value": sends}
    history = read(lines([op]))
    assert [(type(v), v) for v in map(history.value, history.send_value)] == [(type(v), v) for v in values]
    assert len(set(history.send_value.tolist())) == len(values)


def test_operations_of_the_nemesis_are_counted_and_left_out() -> None:
    nemesis = '{"index":0,"time":1,"process":"nemesis","type":"info","f":"kill","value":null}\n'
    history = read(nemesis + SEND.replace('"index":1', '"index":2').replace('"index":0', '"index":1'))
    assert history.operations == 3
    assert len(history) == 2
    assert history.line.tolist() == [2, 3]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n\n"])
def test_lines_may_end_in_every_way(ending: str) -> None:
    assert len(read((SEND + POLL).replace("\n", ending))) == 4
    assert len(read((SEND + POLL).rstrip())) == 4


def test_an_empty_history_is_none_that_is_valid() -> None:
    verdict = check(read(""))
    assert not verdict.valid
    assert verdict.anomalies == {}


INVOKE = '{"index":4,"time":5,"process":2,"type":"invoke","f":"send","value":[["send","x",2]]}\n'
DONE = '{"index":5,"time":6,"process":2,"type":"ok","f":"send","value":[["send","x",[8,2]]]}\n'


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (SEND + POLL + '{"index":4,\n', 5, "not JSON"),
        (SEND + "\n\n" + POLL + "nonsense", 7, "not JSON"),
        (SEND + "[1,2]\n", 3, "an operation is an object, not a list"),
        (SEND + POLL + INVOKE.replace(',"value":[["send","x",2]]', ""), 5, "the send has no value"),
        (SEND + POLL + INVOKE.replace('"index":4,', ""), 5, "the operation has no index"),
        (SEND + POLL.replace('[["poll"]]', '[["poll",{"x":[[7,1]]}]]'), 3, "an invoked poll cannot know"),
        (SEND + POLL + DONE, 5, "a completion without invocation (process 2)"),
        (
            SEND + INVOKE + INVOKE.replace('"index":4', '"index":6'),
            4,
            "process 2 invokes an operation while another is",
        ),
        (SEND + POLL + INVOKE + DONE.replace('"f":"send"', '"f":"txn"'), 6, "completes another function"),
        (SEND + POLL + INVOKE + DONE.replace("[8,2]", '["8",2]'), 6, "an offset is an integer or null, not '8'"),
        (SEND + POLL + INVOKE + DONE.replace("[8,2]", "[8.5,2]"), 6, "an offset is an integer or null, not 8.5"),
        (SEND + POLL + INVOKE + DONE.replace("[8,2]", "[-1,2]"), 6, "offset -1 is out of range"),
        (SEND + POLL + INVOKE + DONE.replace("[8,2]", "[true,2]"), 6, "an offset is an integer or null, not True"),
        (SEND + POLL + INVOKE + DONE.replace("[8,2]", "[8,null]"), 6, "a value is text, a number or a boolean"),
        (SEND + POLL + INVOKE + DONE.replace("[8,2]", "[8]"), 6, "a completed send holds [offset, value]"),
        (SEND + POLL + INVOKE + DONE.replace('["send","x",[8,2]]', '["push","x",2]'), 6, "unknown micro-operation"),
        (SEND + POLL.replace("[[7,1]]", '[["7",1]]'), 4, "an offset is an integer or null, not '7'"),
        (SEND + POLL.replace("[[7,1]]", "[[7,1,2]]"), 4, "a polled message is [offset, value]"),
        (SEND + POLL.replace("[[7,1]]", "[[7],[1,2,3]]"), 4, "a polled message is [offset, value]"),
        (SEND + POLL.replace("[[7,1]]", '["71"]'), 4, "a polled message is [offset, value]"),
        (SEND + POLL.replace("[[7,1]]", "7"), 4, "a poll returns a list"),
        (SEND + POLL.replace('{"x":[[7,1]]}', "[[7,1]]"), 4, "a poll is [poll]"),
        (SEND + POLL.replace('"index":3', '"index":2'), 4, "index 2 comes after index 2"),
        (SEND + POLL.replace('"process":1,"type":"ok"', '"process":1.5,"type":"ok"'), 4, "process is 1.5"),
        (SEND + POLL.replace('"type":"ok"', '"type":"done"'), 4, "type is 'done'"),
        (SEND + POLL.replace('"time":4', '"time":"4"'), 4, "time is '4', not an integer"),
        (SEND + POLL.replace("[[7,1]]", "[[99999999999999999999,1]]"), 4, "an offset is an integer or null"),
        (SEND + POLL.replace("[[7,1]]", "[[7," + "[" * 900 + "]" * 900 + "]]"), 4, "a value is text"),
        ('{"index":0}', 1, "the operation has no time"),
        ("{:index 0, :time 1, :process 0, :type :ok", 1, "what opens here with { has no end"),
        (
            "{:index 0 :time 1 :process 0 :type :invoke :f :poll :value [[:poll]]}\n#foo.Bar{:a 1}\n",
            2,
            "unknown tag #foo",
        ),
        ("{:index 0 :time 1 :process 0 :type :invoke :f :poll\n :value [[:poll]] :x }", 1, "a map with a key without"),
        ("{:index 0 :time 1 :process 0 :type :invoke :f :send :value [[:send :x {1 2}]]}", 1, "a value is text"),
        ('{:index 0\n:error "no\nend', 2, "has no end"),
        ("[" * 400, 1, "nested more than"),
        ("{:index 0} ]", 1, "] closes nothing"),
        (b"{:index \xff}", 1, "not UTF-8"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str | bytes, line: int, reason: str) -> None:
    with pytest.raises(HistoryError) as raised:
        read(text, "history.jsonl")
    assert raised.value.line == line
    assert reason in raised.value.reason
    assert str(raised.value).startswith(f"history.jsonl, line {line}: ")
    assert "\n" not in str(raised.value)


def test_a_broken_line_is_found_far_into_a_file() -> None:
    history = lines(simulate(1).history()).split(b"\n")
    history[316] = history[316][:-3]
    with pytest.raises(HistoryError) as raised:
        read(b"\n".join(history))
    assert raised.value.line == 317


def to_edn(value: Any, *, keyword: bool = False) -> str:  # noqa: PLR0911  # one for each kind
    match value:
        case None:
            return "nil"
        case bool():
            return str(value).lower()
        case str() if keyword and value.isidentifier():
            return f":{value}"
        case str():
            return orjson.dumps(value).decode()
        case list():
            return f"[{' '.join(to_edn(v, keyword=keyword) for v in value)}]"
        case dict():
            pairs = (f"{to_edn(k, keyword=True)} {to_edn(v, keyword=keyword)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        case _:
            return repr(value)


def op_to_edn(op: dict[str, Any], style: int) -> str:
    fields = {name.replace("_", "-"): value for name, value in op.items()}
    text = to_edn(fields, keyword=True)
    match style % 4:
        case 0:
            return text
        case 1:
            return f"#jepsen.history.Op{text}"
        case 2:
            return f"#jepsen.history.Op {text.replace('[', '(').replace(']', ')')} ; a comment"
        case _:
            return text.replace(", :", "\n  #_ignored :")


def test_the_same_history_in_edn_gives_the_same_verdict() -> None:
    for seed in cases("histories in EDN", 60):
        the_same_history_in_edn_gives_the_same_verdict(seed)


def the_same_history_in_edn_gives_the_same_verdict(seed: int) -> None:
    history = wild_history(seeded(seed), mixed=seed % 2 == 0)
    if seed % 2 == 0:  # Jepsen's values are no floats
        history = [op for op in history if "." not in orjson.dumps(op["value"]).decode()]
        history = [] if any(op["type"] != "invoke" for op in history) else history
    text = "\n".join(op_to_edn(op, seed // 2 + n) for n, op in enumerate(history))
    if seed % 5 == 0:
        text = f"[{text}\n]"
    from_edn, from_json = read(text), read(lines(history))
    assert from_edn.operations == from_json.operations
    assert check(from_edn).counts == check(from_json).counts
    assert from_edn.keys == from_json.keys
    assert from_edn.read_offset.tolist() == from_json.read_offset.tolist()
    assert from_edn.rebalanced_op.tolist() == from_json.rebalanced_op.tolist()


def test_jepsens_own_printing_is_read() -> None:
    history = read(
        "#jepsen.history.Op{:index 0, :time 153467, :type :invoke, :process 379, :f :send, :value ([:send 11 641])}\n"
        "#jepsen.history.Op{:index 1, :time 169754, :type :ok, :process 379, :f :send, :value ([:send 11 [537 641]])}\n"
        '#jepsen.history.Op{:index 2, :time 169755, :type :info, :process :nemesis, :f :kill, :value {"n1" :killed}}\n'
        "#jepsen.history.Op{:index 3, :time 28365, :type :invoke, :process 3, :f :txn, :value [[:poll] [:send 11 6]]}\n"
        "#jepsen.history.Op{:index 4, :time 287474569, :type :ok, :process 3, :f :txn, "
        ":value [[:poll {11 [[537 641]], :x []}] [:send 11 [nil 6]]], "
        ':rebalance-log ({:type :assigned, :keys [11]}), :error [:timeout "a \\"b\\"\\n"]}\n'
    )
    assert history.operations == 5
    assert history.keys == ["11", "x"]
    assert history.send_offset.tolist() == [-1, 537, -1, -1]
    assert history.segment_length.tolist() == [1, 0]
    assert history.rebalanced_key.tolist() == [0]


def test_a_history_survives_being_written() -> None:
    history = simulate(5).history()
    operations = [Operation(**row) for row in history]
    file = io.BytesIO()
    assert write_jsonl(operations, file) == len(history)
    assert [orjson.loads(line) for line in file.getvalue().splitlines()] == history


ALPHABET = [
    b"",
    b'"',
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b":",
    b"\\",
    b"null",
    b"-1",
    b"1e999",
    b"\xff",
    b"\n",
    b"\0",
    b"#_",
    b";",
]


def damaged(seed: int, text: bytes) -> bytes:
    """Return a history with a few random changes: bytes changed, cut out, doubled, swapped; or lines."""
    random = seeded(seed)
    data = bytearray(text)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data) + 1)
        length = random.choice([1, 1, 1, 2, 5, 50])
        match random.randrange(5):
            case 0:
                data[at : at + length] = random.choice(ALPHABET)
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length]
            case 3:
                data[at : at + 1] = bytes([random.randrange(256)])
            case _:
                rows = bytes(data).split(b"\n")
                a, b = random.randrange(len(rows)), random.randrange(len(rows))
                rows[a], rows[b] = rows[b], rows[a]
                data = bytearray(b"\n".join(rows))
    return bytes(data)


def refusal_of(seed: int) -> HistoryError | None:
    """Read and check a damaged history; return the error if it is refused."""
    history = wild_history(seeded(seed))
    if seed % 2:
        text = "\n".join(op_to_edn(op, seed // 2 + n) for n, op in enumerate(history)).encode()
    else:
        text = lines(history)
    try:
        verdict = check(read(damaged(seed, text)))
    except HistoryError as error:
        return error
    for found in verdict.anomalies.values():
        orjson.dumps(list(found))
    return None


def test_damaged_files_are_refused_or_read_and_nothing_else() -> None:
    """A refusal is one line with a place and a reason."""
    refused = read_ = 0
    for seed in cases("damaged files", 400):
        error = refusal_of(seed)
        refused, read_ = refused + (error is not None), read_ + (error is None)
        assert error is None or (error.line > 0 and error.reason and "\n" not in str(error))
    assert refused > read_ > 0


def test_columns_that_are_joined_on_the_way_are_those_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text and integers beyond 32 bits among small ones, in batches of a few lines."""
    values: list[Any] = [1, "a", 1 << 40, 2, 3, 1 << 63, "b", 2.5, 4]
    ops: list[dict[str, Any]] = []
    for number, value in enumerate(values * 5):
        done = {"process": 0, "f": "send", "time": number}
        ops.append({**done, "index": 2 * number, "type": "invoke", "value": [["send", "x", value]]})
        ops.append({**done, "index": 2 * number + 1, "type": "ok", "value": [["send", "x", [number, value]]]})
    whole = read(lines(ops))
    monkeypatch.setattr(reading, "CHUNK", 150)
    for pack in (1, 2, 7):
        monkeypatch.setattr(exploding, "_PACK", pack)
        joined = read(lines(ops))
        for name in COLUMNS:
            assert getattr(joined, name).tolist() == getattr(whole, name).tolist()
        assert [joined.value(code) for code in joined.send_value] == [value for value in values * 5 for _ in "io"]

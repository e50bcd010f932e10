"""What a snapshot holds is what a start goes on with; those of former versions are read, too."""

from __future__ import annotations

import base64
from pathlib import Path

import orjson
import pytest

from canary.anomalies.online import Tracker
from canary.anomalies.online.codec import dumps, loads
from canary.anomalies.online.sets.runs import RunMap
from canary.anomalies.online.state import Stall, State, Topic
from canary.runner.publishing import snapshot
from tests.support.bench import RC, RU, TOPIC, Bench

FIRST = (Path(__file__).parent / "snapshots" / "version_1.json").read_bytes()
"""Of a duplicate, a restart and a change of leader, as the last version before columns wrote it."""


def lived() -> Bench:
    bench = Bench(mode="transactional")
    bench.write(5)
    bench.append(2)
    bench.poll()
    bench.settle()
    bench.restart()
    bench.write(3)
    return bench


def test_a_snapshot_holds_all_that_was_known_and_what_the_store_does_not_have() -> None:
    bench = lived()
    said = list(bench.violations.values())
    assert said
    found = snapshot.unseal(snapshot.seal(bench.tracker, said, said[:1], 7))
    assert found.tracker.state == bench.tracker.state
    assert (found.undelivered, found.ended, found.shown) == (said, said[:1], 7)


def test_a_snapshot_of_the_first_version_is_read() -> None:
    found = snapshot.unseal(FIRST)
    state, (log,) = found.tracker.state, found.tracker.state.topics[TOPIC].logs.values()
    assert [one.kind for one in (*found.undelivered, *found.ended)] == ["duplicate", "duplicate"]
    assert (found.shown, state.ordinal) == (9, 149)
    assert state.meters[TOPIC, 0].acked == {"idempotent": 8}
    assert state.topics[TOPIC].index == {(77, 1, 0): 0, (77, 2, 0): 1}
    assert log.claims == RunMap([0, 5, 6], [5, 1, 3], [0, 2, 0], [0, 0, 1])
    assert (log.readers[RC].position, log.readers[RU].position, log.epoch) == (9, 9, 1)
    assert snapshot.unseal(snapshot.seal(*found)).tracker.state == state


def test_a_first_version_that_did_not_know_what_the_store_had_is_read() -> None:
    content = orjson.loads(FIRST)
    del content["shown"], content["ended"]
    found = snapshot.unseal(orjson.dumps(content))
    assert (found.shown, found.ended) == (0, [])


@pytest.mark.parametrize(
    "field", ["tracker", "undelivered", "streams", "logs", "floor", "total", "low_end", "held", "claims"]
)
def test_a_field_that_an_older_release_lacked_has_its_default(field: str) -> None:
    """Of a row and of a column, of a number and of a set."""
    content = orjson.loads(dumps(lived().tracker.state))

    def without(value: object) -> object:
        if isinstance(value, dict):
            return {key: without(one) for key, one in value.items() if key != field}
        return [without(one) for one in value] if isinstance(value, list) else value

    state = loads(State, orjson.dumps(without(content)))
    assert state.ordinal > 0
    assert loads(State, dumps(state)) == state


def test_a_field_that_only_a_later_release_has_is_ignored() -> None:
    state = State(stalls={"a": Stall(1, 2)}, topics={"t": Topic("t")})
    content = orjson.loads(dumps(state))
    content["later"], content["topics"]["t"]["later"] = 1, {"at": 2}
    assert loads(State, orjson.dumps(content)) == state


def test_two_of_a_kind_are_no_columns() -> None:
    """A list of two pairs looks nearly like the keys and the columns of a dictionary."""
    for numbers in ([], [1], [1, 2], [1, 2, 3]):
        state = State(
            stalls={str(n): Stall(n, n) for n in numbers},
            siblings={n: n for n in numbers},
            topics={str(n): Topic(str(n), index={(n, n, m): m for m in numbers}) for n in numbers},
        )
        assert loads(State, dumps(state)) == state


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (b"", "not a snapshot"),
        (b"CANARY\0\2", "not a snapshot"),
        (b"something else altogether", "not a snapshot"),
        (snapshot.seal(Tracker(), [])[:-3], "not a snapshot"),
        (b'{"version": 3}', "a snapshot of version 3"),
        (b"CANARY\0\3" + bytes(8), "a snapshot of version 3"),
        (orjson.dumps({"version": 1, "tracker": base64.b64encode(b'{"topics": [1]}').decode()}), "not a state"),
    ],
)
def test_what_is_no_snapshot_is_said_in_one_sentence(broken: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        snapshot.unseal(broken)

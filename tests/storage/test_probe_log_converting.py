from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.facts import (
    Aborted,
    Acked,
    CommitAsked,
    Committed,
    Fact,
    Failed,
    GenerationBegan,
    Indeterminate,
    Polled,
    RunnerStarted,
    Sent,
    Tick,
    TopicGone,
    TopicSeen,
    TransactionBegan,
    TransactionIndeterminate,
    WatchAsked,
)
from canary.probe.identity import Identity
from storage.ledger.codec import decode_table, encode_facts
from storage.probe_log.carry import Carry
from storage.probe_log.converting import Converted, convert
from storage.probe_log.incarnations import first_told
from storage.probe_log.schemas import POLLS, PROBES, TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

S = 1_000_000_000


def sent(n: int, at_ns: int = 1 * S, **more: Any) -> Sent:
    return Sent(at_ns, "t", 0, 7, more.pop("generation", 1), n, "plain", **more)


def acked(n: int, at_ns: int = 2 * S, offset: int | None = None, generation: int = 1) -> Acked:
    return Acked(at_ns, "t", 0, 7, generation, n, n if offset is None else offset, 500)


def polled(n: int, at_ns: int = 3 * S, consumer: str = "read_committed", generation: int = 1) -> Polled:
    return Polled(at_ns, consumer, "read_committed", "t", 0, n, 7, generation, n, leader_epoch=4)


def sample(number: int, topic_id: str | None, *, agreed: bool = True) -> list[Fact]:
    return [WatchAsked(number * S, number), TopicSeen(number * S, number, "t", topic_id, 1, agreed=agreed)]


def run(facts: Sequence[Fact], carry: Carry | None = None, later: dict[str, str] | None = None) -> Converted:
    return convert([decode_table(encode_facts(facts))], cluster="c", carry=carry or Carry(), later=later)


def outcomes(converted: Converted) -> dict[int, tuple[str, int | None, str | None]]:
    return {
        row["sequence"]: (row["outcome"], row["offset"], row["topic_id"])
        for row in converted.tables["probes"].to_pylist()
    }


def test_the_tables_have_exactly_the_columns_and_types_of_the_contract() -> None:
    done = run([sent(0), acked(0), polled(0), TransactionBegan(1, "m", 7, 1, 0), Committed(2, 7, 1, 0)])
    for name, schema in (("probes", PROBES), ("transactions", TRANSACTIONS), ("polls", POLLS)):
        assert done.tables[name].schema == schema
        assert done.tables[name].num_rows == 1
        done.tables[name].validate(full=True)
    assert PROBES.field("sent_at").type == pa.timestamp("us", tz="UTC")
    empty = run([])
    assert (empty.tables["probes"].schema, empty.tables["probes"].num_rows, empty.first_at_ns) == (PROBES, 0, None)


def test_every_identity_sent_has_a_row_and_without_an_outcome_it_is_indeterminate() -> None:
    done = run(
        [
            *(sent(n) for n in range(5)),
            acked(0),
            Failed(2, "t", 0, 7, 1, 1, "queue full"),
            Indeterminate(2, "t", 0, 7, 1, 2, "timed out"),
            Acked(2, "t", 0, 7, 1, 3, None),
        ]
    )
    assert {n: outcome for n, (outcome, _, _) in outcomes(done).items()} == {
        0: "acked",
        1: "failed",
        2: "indeterminate",
        3: "acked",
        4: "indeterminate",
    }
    rows = done.tables["probes"].to_pylist()
    assert [row["offset"] for row in rows] == [0, None, None, None, None], "sorted by offset, nulls last"
    assert {row["sequence"]: row["error"] for row in rows}[1] == "queue full"
    assert set(done.carry.probes) == {Identity(7, 1, 0, 4)}


def test_an_outcome_in_the_next_segment_makes_a_second_row_with_all_that_was_known() -> None:
    first = run([GenerationBegan(0, "t", "plain", 7, 1), sent(0, 1_234_567_891, transaction_id=9)])
    second = run([acked(0, 5 * S, 40)], Carry.decode(first.carry.encode()))
    (row,) = second.tables["probes"].to_pylist()
    assert (row["outcome"], row["offset"], row["mode"], row["transaction_id"]) == ("acked", 40, "plain", 9)
    assert row["sent_at"].microsecond == 234_567
    assert row["acked_at"].timestamp() == 5
    assert not second.carry.probes
    assert run([acked(0, 6 * S, 41)], second.carry).tables["probes"].to_pylist()[0]["mode"] == "plain", (
        "told again: a row again"
    )


def test_an_ack_outweighs_what_was_said_before_and_the_first_ack_counts() -> None:
    done = run([sent(0), Indeterminate(2, "t", 0, 7, 1, 0, "late"), acked(0, offset=5), acked(0, offset=6)])
    assert outcomes(done) == {0: ("acked", 5, None)}


def test_a_restart_leaves_what_was_open_indeterminate_for_good() -> None:
    first = run([sent(0), TransactionBegan(1, "m", 7, 1, 3), CommitAsked(2, 7, 1, 3)])
    second = run([RunnerStarted(9, "r", "1")], first.carry)
    assert not second.carry.probes
    assert not second.carry.transactions
    assert second.tables["probes"].num_rows == 0
    (row,) = second.tables["transactions"].to_pylist()
    assert (row["transaction_id"], row["outcome"], row["ended_at"]) == (3, "indeterminate", None)


def test_a_generation_long_dead_is_not_carried_for_ever() -> None:
    done = run([sent(0), GenerationBegan(2, "t", "plain", 7, 2), sent(1, generation=2)])
    assert len(done.carry.probes) == 2
    assert len(run([GenerationBegan(3, "t", "plain", 7, 3)], done.carry).carry.probes) == 1


def test_a_transaction_has_one_row_where_it_ended() -> None:
    first = run([TransactionBegan(1 * S, "m", 7, 1, n) for n in range(4)])
    assert first.tables["transactions"].num_rows == 0
    second = run(
        [
            CommitAsked(2 * S, 7, 1, 0),
            Committed(3 * S, 7, 1, 0),
            Aborted(3 * S, 7, 1, 1, "fenced"),
            CommitAsked(2 * S, 7, 1, 2),
            TransactionIndeterminate(3 * S, 7, 1, 2, "timed out"),
            Committed(4 * S, 7, 1, 2),
        ],
        Carry.decode(first.carry.encode()),
    )
    rows = {row["transaction_id"]: row for row in second.tables["transactions"].to_pylist()}
    assert {n: row["outcome"] for n, row in rows.items()} == {0: "committed", 1: "aborted", 2: "committed"}
    assert rows[0]["began_at"].timestamp() == 1
    assert rows[0]["commit_at"].timestamp() == 2
    assert rows[2]["commit_at"].timestamp() == 2
    assert rows[1]["error"] == "fenced"
    assert set(second.carry.transactions) == {(7, 1, 3)}


def test_polls_keep_rereads_too() -> None:
    done = run([polled(1), polled(0), polled(1, 4 * S, "reread-1")])
    assert [(row["offset"], row["consumer_id"]) for row in done.tables["polls"].to_pylist()] == [
        (0, "read_committed"),
        (1, "read_committed"),
        (1, "reread-1"),
    ]


def test_a_row_between_two_equal_samples_has_their_topic_id() -> None:
    done = run([*sample(1, "A"), sent(0), acked(0), polled(0), *sample(2, "A")])
    assert outcomes(done) == {0: ("acked", 0, "A")}
    assert done.tables["polls"].to_pylist()[0]["topic_id"] == "A"


@pytest.mark.parametrize("after", [sample(2, "B"), [WatchAsked(2, 2), TopicGone(2, 2, "t")]])
def test_between_two_different_samples_an_ack_promises_nothing_and_a_poll_proves_nothing(after: list[Fact]) -> None:
    done = run([*sample(1, "A"), sent(0), acked(0), polled(0), *after])
    assert outcomes(done) == {0: ("indeterminate", None, None)}
    assert "acked at offset 0" in done.tables["probes"].to_pylist()[0]["error"]
    assert done.tables["polls"].num_rows == 0
    assert done.voided == 2


def test_a_sample_asked_before_a_fact_does_not_enclose_it_although_answered_after_it() -> None:
    asked, told = sample(2, "A")
    done = run([*sample(1, "A"), asked, sent(0), acked(0), told, *sample(3, "B")])
    assert outcomes(done) == {0: ("indeterminate", None, None)}
    done = run([*sample(1, "A"), asked, sent(0), acked(0), told, *sample(3, "A"), *sample(4, "B")])
    assert outcomes(done) == {0: ("acked", 0, "A")}


def test_sent_in_one_incarnation_and_acked_in_the_next_is_unknown() -> None:
    done = run([*sample(1, "A"), sent(0), *sample(2, "B"), acked(0), *sample(3, "B")])
    assert outcomes(done) == {0: ("indeterminate", None, None)}


def test_the_incarnation_is_carried_over_the_seal() -> None:
    first = run([*sample(1, "A"), sent(0), sent(1), acked(1), polled(1)], later={"t": "B"})
    assert outcomes(first)[1] == ("indeterminate", None, None), "the following segment tells another id"
    assert outcomes(run([*sample(1, "A"), sent(1), acked(1)]))[1] == ("acked", 1, "A"), "nothing tells otherwise"
    carried = Carry.decode(first.carry.encode())
    assert outcomes(run([acked(0), *sample(2, "A")], carried)) == {0: ("acked", 0, "A")}
    assert outcomes(run([acked(0), *sample(2, "B")], carried)) == {0: ("indeterminate", None, None)}


def test_a_broker_that_still_tells_the_dead_id_is_not_believed() -> None:
    first = run([*sample(1, "A"), *sample(2, "B"), *sample(3, "A", agreed=False), sent(0), acked(0), *sample(4, "B")])
    assert outcomes(first) == {0: ("acked", 0, "B")}
    second = run(
        [*sample(5, "A", agreed=False), sent(1), acked(1), *sample(6, "B")], Carry.decode(first.carry.encode())
    )
    assert outcomes(second) == {1: ("acked", 1, "B")}


def test_a_topic_that_some_brokers_do_not_know_for_a_while_is_the_same_one() -> None:
    """Brokers that come up answer that there is no such topic; its id is not a former one's for that."""
    gone: list[Fact] = [WatchAsked(2, 2), TopicGone(2, 2, "t")]
    whole: list[Fact] = [
        *sample(1, "A"),
        sent(0),
        *gone,
        *sample(3, "A"),
        sent(1),
        acked(1),
        polled(1),
        *sample(4, "A"),
    ]
    for cut in range(len(whole)):
        first = run(whole[:cut])
        second = run(whole[cut:], Carry.decode(first.carry.encode()))
        assert (outcomes(first) | outcomes(second))[1] == ("acked", 1, "A"), cut
    again: list[Fact] = [*sample(5, "B"), *sample(6, "A", agreed=False), sent(2), acked(2), *sample(7, "B")]
    assert outcomes(run(again, Carry.decode(run(whole[:-2]).carry.encode()))) == {2: ("acked", 2, "B")}
    assert outcomes(run(again, Carry.decode(run(whole[:5]).carry.encode()))) == {2: ("acked", 2, "B")}, (
        "while it is gone"
    )


def test_what_is_marked_for_the_former_incarnation_is_of_no_other() -> None:
    """A generation goes on, or begins, under the former topic id until its writer is told: nobody finds its records."""
    began, again = (GenerationBegan(1, "t", "plain", 7, generation, "A") for generation in (1, 2))
    late: list[Fact] = [sent(1), acked(1), again, sent(2, generation=2), acked(2, generation=2)]
    fresh: list[Fact] = [GenerationBegan(3, "t", "plain", 7, 3, "B"), sent(4, generation=2), acked(4, generation=2)]
    fresh += [sent(3, generation=3), acked(3, generation=3)]
    whole: list[Fact] = [
        began,
        *sample(1, "A"),
        sent(0),
        acked(0),
        *sample(2, "B"),
        *late,
        *sample(3, "B"),
        *fresh,
        *sample(4, "B"),
    ]
    lost = ("indeterminate", None, None)
    expected = {0: lost, 1: lost, 2: lost, 4: lost, 3: ("acked", 3, "B")}
    assert outcomes(run(whole)) == expected
    for cut in range(len(whole)):
        first = run(whole[:cut], later={"t": "B"})
        second = run(whole[cut:], Carry.decode(first.carry.encode()))
        assert outcomes(first) | outcomes(second) == expected, cut
    assert run(whole).carry.marked == {(7, 1): "A", (7, 3): "B"}


def test_a_poll_of_what_is_marked_for_the_former_incarnation_proves_nothing_of_the_next() -> None:
    """A reader that has not heard of the new topic yet goes on in it, and takes what bears the former mark for ours."""
    began = [GenerationBegan(1, "t", "plain", 7, generation, mark) for generation, mark in enumerate("AAB", 1)]
    late = [polled(n, generation=generation) for n, generation in ((0, 1), (1, 2), (2, 3))]
    whole: list[Fact] = [began[0], *sample(1, "A"), began[1], *sample(2, "B"), began[2], *late, *sample(3, "B")]
    for cut in range(len(whole)):
        first = run(whole[:cut], later={"t": "B"})
        second = run(whole[cut:], Carry.decode(first.carry.encode()))
        rows = [row for part in (first, second) for row in part.tables["polls"].to_pylist()]
        assert [(row["generation"], row["topic_id"]) for row in rows] == [(3, "B")], cut


def test_a_generation_that_began_before_the_topic_id_was_known_is_of_the_log_it_stands_in() -> None:
    began = [GenerationBegan(1, "t", "plain", 7, generation, mark) for generation, mark in ((1, "A"), (2, None))]
    done = run([*began, *sample(1, "B"), polled(0, generation=2), *sample(2, "B")])
    assert [row["topic_id"] for row in done.tables["polls"].to_pylist()] == ["B"]


def test_a_cluster_that_tells_no_ids_has_null_and_its_acks_stand() -> None:
    assert outcomes(run([*sample(1, None), sent(0), acked(0), *sample(2, None)])) == {0: ("acked", 0, None)}
    assert outcomes(run([sent(0), acked(0)])) == {0: ("acked", 0, None)}
    assert outcomes(run([sent(0), acked(0), *sample(1, "A")])) == {0: ("acked", 0, "A")}, "before the first sample"


def test_what_the_following_segment_tells_first_counts_only_if_it_was_asked_there() -> None:
    asked, told = sample(1, "A")
    assert first_told([[told, Tick(1)], sample(2, "B"), sample(3, "C")], ["t"]) == {"t": "B"}
    assert first_told([[told]], ["t"]) == {}
    assert first_told([[asked, TopicGone(1, 1, "t")]], ["t"]) == {"t": ""}


@given(st.data())
def test_where_the_seals_fall_changes_no_outcome(data: st.DataObject) -> None:
    facts: list[Fact] = [*sample(1, "A")]
    for n in range(data.draw(st.integers(1, 12))):
        facts.insert(data.draw(st.integers(2, len(facts))), sent(n))
        at = facts.index(sent(n)) + 1
        if data.draw(st.booleans()):
            facts.insert(data.draw(st.integers(at, len(facts))), acked(n))
    facts += sample(2, "A")
    whole = run(facts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(facts)), max_size=4)))
    carry, best = Carry(), {}
    for start, stop in zip([0, *cuts], [*cuts, len(facts)], strict=True):
        part = run(facts[start:stop], Carry.decode(carry.encode()))
        carry = part.carry
        for n, row in outcomes(part).items():
            if row[0] == "acked" or n not in best:
                best[n] = row
    assert best == outcomes(whole)
    assert dict(carry.probes) == dict(whole.carry.probes)

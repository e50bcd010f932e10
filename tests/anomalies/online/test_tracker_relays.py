"""What two transactions of a relay take, and what none does: borders, incarnations, doubt."""

from __future__ import annotations

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from tests.anomalies.online.test_tracker_modes import OUT, RELAY, Relaying
from tests.support.bench import PRODUCER, RC, TOPIC, Bench


def made_again(relay: Relaying) -> None:
    bench = relay.bench
    bench.topic_id, bench.log, bench.start, bench.end = "incarnation-2", {}, 0, 0
    bench.round()


def begun(relay: Relaying, start: int, end: int) -> tuple[int, int, int]:
    """A transaction that takes inputs and has no outcome yet."""
    key = (99, 1, relay.number)
    relay.number += 1
    at_ns = relay.bench.now_ns
    relay.bench.fold(
        f.TransactionBegan(at_ns, "relay", *key),
        f.Relayed(at_ns, *key, TOPIC, 0, start, end, relay.bench.marked_id),
        f.CommitAsked(at_ns, *key),
    )
    return key


def test_one_input_that_was_passed_over_is_said() -> None:
    relay = Relaying()
    relay.take(0, 10)
    relay.take(11, 20)
    relay.bench.settle()
    assert relay.kinds() == [("poll-skip", 10)]


def test_where_the_relay_begins_it_has_passed_nothing() -> None:
    relay = Relaying()
    relay.take(5, 10)
    relay.bench.settle()
    assert relay.kinds() == []


def test_inputs_of_a_topic_that_is_gone_are_not_taken_from_its_successor() -> None:
    relay = Relaying()
    key = begun(relay, 0, 10)
    made_again(relay)
    relay.bench.fold(f.Committed(relay.bench.now_ns, *key))
    relay.take(0, 10)
    assert relay.kinds() == [("topic-recreated", None)]


def test_doubt_of_a_topic_that_is_gone_excuses_nothing_in_its_successor() -> None:
    relay = Relaying()
    key = begun(relay, 0, 30)
    made_again(relay)
    relay.bench.fold(f.TransactionIndeterminate(relay.bench.now_ns, *key, "?"))
    bench = relay.bench
    bench.generation, bench.sequence = 2, 0
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, bench.mode, 77, 2, bench.topic_id))
    bench.write(20)
    relay.take(0, 5)
    relay.take(10, 20)
    bench.settle()
    assert [found for found in relay.kinds() if found[0] == "poll-skip"] == [("poll-skip", o) for o in range(5, 10)]


def test_a_jump_behind_an_indeterminate_transaction_is_one() -> None:
    relay = Relaying()
    relay.take(0, 10, "indeterminate")
    relay.take(12, 20)
    relay.bench.settle()
    assert relay.kinds() == [("poll-skip", 10), ("poll-skip", 11)]


def test_a_jump_is_said_by_the_first_that_makes_it() -> None:
    relay = Relaying()
    relay.take(0, 10)
    relay.take(12, 20, "aborted")
    relay.bench.settle()
    relay.take(12, 20)
    relay.bench.settle()
    assert [(v.offset, v.count) for v in relay.bench.said if v.kind == "poll-skip"] == [(10, 2)]


@pytest.mark.parametrize(("start", "found"), [(10, [("poll-skip", 10), ("poll-skip", 11)]), (11, [("poll-skip", 11)])])
def test_of_what_was_passed_over_only_what_is_retained_is_said(start: int, found: list[tuple[str, int]]) -> None:
    relay = Relaying()
    relay.bench.settle(2)
    relay.take(0, 10)
    relay.bench.now_ns += 9 * 86_400 * 10**9
    relay.bench.start = start
    relay.bench.round()
    relay.take(12, 30)
    relay.bench.settle()
    assert relay.kinds() == found


def test_a_group_that_stands_above_what_it_committed_is_as_it_should_be() -> None:
    bench = Bench()
    for offset, reason in ((5, "committed"), (6, "fetched"), (5, "fetched")):
        bench.fold(f.GroupOffset(bench.now_ns, "g", TOPIC, 0, offset, reason))
    assert bench.found() == []


def test_a_group_that_has_forgotten_begins_anew() -> None:
    bench = Bench()
    for offset, reason in ((5, "committed"), (None, "fetched"), (2, "fetched"), (3, "committed"), (1, "fetched")):
        bench.fold(f.GroupOffset(bench.now_ns, "g", TOPIC, 0, offset, reason))
    bench.settle(3)
    assert bench.found() == [("committed-offset-regression", -1, -1), ("committed-offset-regression", 1, -1)]


def test_a_commit_without_an_offset_takes_nothing_back() -> None:
    bench = Bench()
    for offset, reason in ((5, "committed"), (None, "committed"), (4, "fetched")):
        bench.fold(f.GroupOffset(bench.now_ns, "g", TOPIC, 0, offset, reason))
    bench.settle(3)
    assert bench.found() == [("committed-offset-regression", 4, -1)]


def test_a_group_that_forgot_a_topic_that_was_deleted_is_as_it_should_be() -> None:
    bench = Bench()
    bench.fold(f.GroupOffset(bench.now_ns, "g", TOPIC, 0, 221, "committed"))
    bench.fold(f.GroupOffset(bench.now_ns, "g", TOPIC, 0, None, "fetched"))  # before anybody saw the new topic id
    bench.topic_id, bench.end, bench.log, bench.epoch = "incarnation-2", 0, {}, 0
    bench.settle(4)
    assert [kind for kind, _, _ in bench.found()] == ["topic-recreated"]


@pytest.mark.parametrize("former", ["incarnation-1", None])
def test_what_was_read_for_the_former_incarnation_is_taken_from_none(former: str | None) -> None:
    relay = Relaying()
    relay.take(0, 10)
    made_again(relay)
    bench, key = relay.bench, (99, 1, relay.number)
    relay.number += 1
    bench.fold(
        f.TransactionBegan(bench.now_ns, "relay", *key),
        f.Relayed(bench.now_ns, *key, TOPIC, 0, 5, 7, former),
        f.Committed(bench.now_ns, *key),
    )
    relay.take(0, 10)
    assert relay.kinds() == [("topic-recreated", None)]


@pytest.mark.parametrize("forgotten", [0, 5])
def test_what_a_start_that_is_forgotten_has_taken_is_not_passed_over(forgotten: int) -> None:
    """Store and ledger of yesterday: the group stands where today's transactions left it."""
    relay = Relaying()
    bench = relay.bench
    relay.take(0, 10)
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    for sequence in range(forgotten):
        bench.log[bench.end] = (500, 1, sequence)
        bench.end += 1
    bench.settle()
    relay.take(15, 20)
    bench.settle()
    assert {kind for kind, _ in relay.kinds()} == (set() if forgotten else {"poll-skip"})


def test_where_the_relay_begins_after_all_was_forgotten_it_has_passed_nothing() -> None:
    """Store and ledger are new; probes were written before its group, which never committed, joined at the end."""
    relay = Relaying()
    bench = relay.bench
    bench.tracker = Tracker()
    bench.generation, bench.sequence = 2, 0
    bench.begin()
    for _ in range(3):
        bench.append(*bench.send())
        bench.settle(2)
    relay.take(bench.end - 1, bench.end)
    bench.settle()
    assert "poll-skip" not in {kind for kind, _ in relay.kinds()}


@pytest.mark.parametrize("lost", [False, True])
def test_where_a_relay_of_another_group_begins_it_has_passed_nothing(*, lost: bool) -> None:
    """Its name was lost with store and ledger."""
    relay = Relaying()
    bench = relay.bench
    relay.take(0, 10)
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    if lost:
        bench.fold(f.MemoryLost(bench.now_ns, bench.now_ns - 10**9, "the store was wiped"))
    bench.settle(3)
    relay.take(15, 20)
    relay.take(21, 25)
    bench.settle()
    assert [offset for kind, offset in relay.kinds() if kind == "poll-skip"] == [*([] if lost else range(10, 15)), 20]


def dies(relay: Relaying, *, listed: bool = True) -> None:
    """Its process dies once the output has a record, read, and another one of which nothing is in the ledger."""
    bench = relay.bench
    bench.fold(f.Positioned(bench.now_ns, RC, RC, OUT, 0, 0, "start"))
    relay.prove(0)
    bench.generation, bench.sequence = bench.generation + 1, 0
    bench.fold(
        f.RunnerStarted(bench.now_ns, "canary-0", "test"),
        f.GenerationBegan(bench.now_ns, TOPIC, bench.mode, PRODUCER, bench.generation),
        f.GenerationBegan(bench.now_ns, OUT, "relay", RELAY, 2),
    )
    bench.round()
    if listed:
        bench.fold(f.Listed(bench.now_ns, bench.sample, OUT, 0, 0, 2, 2, 0))


def test_what_a_process_took_that_died_before_it_recorded_it_is_not_passed_over() -> None:
    """Whenever the output shows such a transaction; with none, the jump is said as soon as that is known."""
    for read, found in (("first", []), ("later", []), ("never", [("poll-skip", offset) for offset in range(10, 15)])):
        relay = Relaying()
        relay.take(0, 10)
        dies(relay)
        if read == "first":
            relay.prove(1)
        relay.bench.fold(f.Committed(relay.bench.now_ns, *begun(relay, 15, 20)))
        relay.bench.settle(3)
        assert relay.kinds() == []
        if read == "later":
            relay.prove(1)
        relay.bench.fold(f.EndOfPartition(relay.bench.now_ns, RC, RC, OUT, 0, 2))
        relay.bench.settle()
        assert relay.kinds() == found


def test_until_it_is_known_where_the_output_ended_no_jump_behind_a_start_is_said() -> None:
    relay = Relaying()
    relay.take(0, 10)
    dies(relay, listed=False)
    begun(relay, 15, 20)
    relay.bench.settle(3)
    assert relay.kinds() == []


def test_what_died_unrecorded_took_only_what_the_next_process_passes_as_it_begins() -> None:
    """Neither what was passed before, nor what was written since."""
    relay = Relaying()
    relay.take(0, 10)
    relay.take(12, 20)
    dies(relay)
    relay.bench.write(20)
    relay.prove(2)
    begun(relay, 35, 40)
    relay.bench.settle(3)
    assert [offset for _, offset in relay.kinds()] == [10, 11, *range(30, 35)]


@pytest.mark.parametrize("low", [0, 10, 20])
def test_where_the_input_s_end_was_listed_too_low_former_processes_may_have_taken_what_they_wrote(low: int) -> None:
    relay = Relaying()
    relay.take(0, 10)
    end, relay.bench.end = relay.bench.end, low
    dies(relay)
    relay.bench.end = end
    relay.bench.fold(f.Committed(relay.bench.now_ns, *begun(relay, 15, 20)))
    relay.prove(1)
    relay.bench.settle(3)
    assert relay.kinds() == []


@pytest.mark.parametrize("acked", ["after", "before"])
def test_outputs_are_read_up_to_the_first_of_this_process_though_their_end_was_listed_too_low(acked: str) -> None:
    """Of what stands below it any may be of what a former process took."""
    relay = Relaying()
    relay.take(0, 10)
    dies(relay, listed=False)
    bench = relay.bench
    listed = f.Listed(bench.now_ns, bench.sample, OUT, 0, 0, 0, 0, 0)  # two are there
    if acked == "after":
        bench.fold(listed)
    bench.fold(f.Committed(bench.now_ns, *begun(relay, 15, 20)))
    bench.fold(
        f.Sent(bench.now_ns, OUT, 0, RELAY, 2, 0, "relay"), f.Acked(bench.now_ns, OUT, 0, RELAY, 2, 0, 2, 2_000_000)
    )
    if acked == "before":
        bench.fold(listed)
    bench.settle(3)
    assert relay.kinds() == []
    relay.prove(1)
    bench.settle(3)
    assert relay.kinds() == []


def test_a_later_jump_below_where_the_input_ended_is_one() -> None:
    relay = Relaying()
    relay.take(0, 10)
    dies(relay)
    relay.prove(1)
    relay.bench.fold(f.Committed(relay.bench.now_ns, *begun(relay, 15, 20)))
    begun(relay, 22, 25)
    relay.bench.settle()
    assert relay.kinds() == [("poll-skip", 20), ("poll-skip", 21)]


def test_a_recorded_output_excuses_no_jump_behind_a_start() -> None:
    relay = Relaying()
    relay.take(0, 10)
    dies(relay)
    begun(relay, 15, 20)
    relay.prove(0)
    relay.bench.fold(f.EndOfPartition(relay.bench.now_ns, RC, RC, OUT, 0, 2))
    relay.bench.settle()
    assert relay.kinds() == [("poll-skip", offset) for offset in range(10, 15)]


def test_where_only_the_sending_is_not_recorded_it_is_known_what_was_taken() -> None:
    relay = Relaying()
    relay.take(0, 10)
    begun(relay, 10, 12)
    dies(relay)
    relay.prove(1)
    begun(relay, 15, 20)
    relay.bench.fold(f.EndOfPartition(relay.bench.now_ns, RC, RC, OUT, 0, 2))
    relay.bench.settle()
    assert relay.kinds() == [("poll-skip", offset) for offset in range(12, 15)]


def test_what_one_process_did_not_record_excuses_no_jump_behind_a_later_start() -> None:
    relay = Relaying()
    relay.take(0, 10)
    dies(relay)
    relay.prove(1)
    relay.bench.fold(f.Committed(relay.bench.now_ns, *begun(relay, 15, 20)))
    dies(relay)
    begun(relay, 25, 30)
    relay.bench.fold(f.EndOfPartition(relay.bench.now_ns, RC, RC, OUT, 0, 2))
    relay.bench.settle()
    assert relay.kinds() == [("poll-skip", offset) for offset in range(20, 25)]


@pytest.mark.parametrize(("goes_on_at", "found"), [(20, []), (22, [("poll-skip", 20), ("poll-skip", 21)])])
def test_a_group_that_stands_above_where_its_log_was_cut_has_jumped_over_nothing_below(
    goes_on_at: int, found: list[tuple[str, int]]
) -> None:
    """It had taken what is lost; where the log grows again below its offset, it does not go back."""
    relay = Relaying()
    bench = relay.bench
    relay.take(0, 20)
    bench.truncate(15)
    bench.settle()
    bench.write(10)
    bench.settle()
    relay.take(goes_on_at, 25)
    bench.settle()
    assert ("truncation", 15) in relay.kinds()
    assert [one for one in relay.kinds() if one[0] in {"poll-skip", "duplicate"}] == found

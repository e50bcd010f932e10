"""How a re-read begins, goes on and ends: against librdkafka's own mock cluster, and message by message."""

from __future__ import annotations

import itertools
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from canary.anomalies.violation import RereadRequest
from canary.facts import Polled, Positioned, RereadEnded
from canary.kafka.client_inbox import ClientInbox
from canary.probing.readers import reread
from canary.probing.readers.reread import RereadWorker, _Leader, _Queue, _Range
from canary.probing.readers.tail import ASK_S
from canary.threads.ports import SteadyClock
from tests.support.messages import EOF, OUT_OF_RANGE, TAG, TOPIC, Message, probe
from tests.support.recording import Recording
from tests.support.unmet import Unmet
from tests.support.waiting import in_time, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLOCK = SteadyClock()


def request(start: int, end: int, number: int = 1, topic: str = TOPIC, isolation: str = "read_committed") -> Any:
    return RereadRequest(number, topic, 0, isolation, start, end, "confirm")


def statistics(leader: int = 1, epoch: int = 7) -> str:
    one = {"leader": leader, "leader_epoch": epoch}
    return json.dumps({"brokers": {}, "topics": {TOPIC: {"partitions": {"0": one}}}})


def wanted(start: int, end: int, told: str | None = statistics()) -> _Range:
    leader = _Leader(request(start, end))
    if told is not None:
        leader(told)
    return _Range(request(start, end), "reread-1", "read_committed", TAG, CLOCK, leader)


def folded(one: _Range, *messages: Message) -> tuple[list[int], tuple[int, bool, str | None] | None]:
    """Return the offsets that were told, and how the range ended: reached, complete, error."""
    facts, outcome = one.fold(messages)
    offsets = [fact.offset for fact in facts if isinstance(fact, Polled)]
    return offsets, None if outcome is None else (outcome.reached, outcome.complete, outcome.error)


@pytest.mark.parametrize(("kind", "told"), [(0, None), (1, None), (2, 1_790_000_000_000)])
def test_a_time_that_is_our_own_is_no_time_of_a_broker_s(
    kind: int, told: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Message, "timestamp", lambda _: (kind, 1_790_000_000_000))
    ((fact,), _) = wanted(5, 8).fold([Message(5)])
    assert isinstance(fact, Polled)
    assert fact.timestamp_ms == told


def test_a_range_ends_with_the_record_before_its_end() -> None:
    one = wanted(5, 8)
    assert folded(one, Message(5), Message(6)) == ([5, 6], None)
    assert one.position == 7
    assert folded(one, Message(7), Message(8)) == ([7], (8, True, None))


def test_offsets_that_the_broker_passes_over_are_read_too() -> None:
    """Markers, what was aborted, what was compacted."""
    assert folded(wanted(5, 9), Message(5), Message(8)) == ([5, 8], (9, True, None))


def test_what_stands_beyond_the_end_ends_the_range_and_is_not_told() -> None:
    assert folded(wanted(5, 8), Message(5), Message(8)) == ([5], (8, True, None))
    assert folded(wanted(5, 8), Message(11)) == ([], (8, True, None))


def test_the_end_of_the_log_ends_a_range_at_or_below_it() -> None:
    assert folded(wanted(5, 8), Message(5), Message(8, EOF)) == ([5], (8, True, None))
    assert folded(wanted(5, 8), Message(5), Message(7, EOF)) == ([5], (7, False, "end of log at 7"))


def test_an_error_that_passes_is_waited_out_and_one_that_does_not_ends_the_range() -> None:
    assert folded(wanted(5, 8), Message(5), Message(-1, KafkaError._TRANSPORT), Message(6)) == ([5, 6], None)
    for code in (OUT_OF_RANGE, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED):
        offsets, ended = folded(wanted(5, 8), Message(5), Message(-1, code), Message(6))
        assert offsets == [5]
        assert ended is not None
        assert ended[:2] == (6, False)
        assert ended[2]


def test_a_range_begins_where_the_log_does_once_a_fetch_below_it_is_refused() -> None:
    late = wanted(5, 8)
    assert late.begin(7) == []
    assert [place.offset for place in late.place()] == [6]
    told, ended = late.fold([Message(-1, OUT_OF_RANGE)])
    assert [(one.offset, one.reason) for one in told if isinstance(one, Positioned)] == [(7, "the log starts at 7")]
    assert ended is None
    assert late.asks_again()
    assert [place.offset for place in late.place()] == [7]
    assert folded(late, Message(7)) == ([7], (8, True, "the log starts at 7"))
    next_one = wanted(5, 8)
    assert next_one.begin(6) == []
    assert [place.offset for place in next_one.place()] == [5]
    (asked,) = wanted(5, 8).begin(5)
    assert isinstance(asked, Positioned)
    assert (asked.offset, asked.reason) == (5, "confirm")


@pytest.mark.parametrize("given", [Message(6), Message(8), Message(6, EOF)])
def test_a_listed_start_is_not_believed_over_what_is_read_below_it(given: Message) -> None:
    """The range is read from its beginning; where that is refused, nothing is known, and silence ends it."""
    late = wanted(5, 8)
    late.begin(7)
    late.listed_end = 20
    told, ended = late.fold([Message(-1, KafkaError._TRANSPORT), given, Message(7)])
    assert [(one.offset, one.reason) for one in told if isinstance(one, Positioned)] == [(5, "confirm")]
    assert ended is None
    assert late.asks_again()
    assert [place.offset for place in late.place()] == [5]
    assert folded(late, Message(-1, OUT_OF_RANGE)) == ([], None)
    assert folded(late, Message(5), Message(6), Message(7)) == ([5, 6, 7], (8, True, None))


def test_a_range_that_is_all_gone_reached_the_logs_start() -> None:
    gone = wanted(5, 8)
    gone.begin(20)
    _, outcome = gone.fold([Message(-1, OUT_OF_RANGE)])
    assert outcome is not None
    assert (outcome.reached, outcome.complete, outcome.error) == (20, True, "the log starts at 20")


class Client(Unmet):
    """A consumer whose leader answers as told: bounds or errors first, then messages, then nothing for ever."""

    def __init__(self, *answers: tuple[int, int] | int, given: tuple[Message | None, ...] = ()) -> None:
        self.given = list(given)
        self.answers = itertools.chain(answers, itertools.repeat(answers[-1]))
        self.assigned: list[int] = []
        self.asked = 0

    def get_watermark_offsets(self, _place: object, timeout: float) -> tuple[int, int]:
        assert 0 < timeout <= ASK_S
        self.asked += 1
        answer = next(self.answers)
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer

    def assign(self, places: list[Any]) -> None:
        self.assigned += [place.offset for place in places]

    def poll(self, _timeout: float) -> Message | None:
        return self.given.pop(0) if self.given else None

    def consume(self, _most: int, _timeout: float) -> list[Any]:
        return []

    def close(self) -> None:
        pass


def reader(inbox: Recording, silence_s: float = 0.3, **config: object) -> RereadWorker:
    return RereadWorker(lambda: config, lambda _: TAG, inbox, CLOCK, silence_s=silence_s)


def of_client(inbox: Recording) -> ClientInbox:
    return ClientInbox(inbox, CLOCK, "reread-1", lambda: None)


def test_a_range_is_assigned_at_the_first_offset_that_the_log_has() -> None:
    """Right below it first: a broker may list a start that is too high."""
    client, inbox = Client((6, 20), given=(Message(-1, OUT_OF_RANGE), None, Message(6), Message(7))), Recording()
    outcome = reader(inbox)._read(client, wanted(4, 8))
    assert (outcome.reached, outcome.complete, outcome.error) == (8, True, "the log starts at 6")
    assert client.assigned == [5, 6]
    assert [fact.offset for fact in inbox.of(Positioned)] == [6]
    assert [fact.offset for fact in inbox.of(Polled)] == [6, 7]


@pytest.mark.parametrize("start", [8, 9])
def test_a_range_without_anything_to_read_ends_at_once(start: int) -> None:
    client = Client((start, 20), given=(Message(-1, OUT_OF_RANGE),))
    outcome = reader(Recording())._read(client, wanted(5, 8))
    assert (outcome.reached, outcome.complete, outcome.error) == (start, True, f"the log starts at {start}")
    assert client.assigned == [start - 1]


def test_beyond_the_listed_end_a_fetch_says_whether_the_log_ends_there() -> None:
    """A broker may list an end that is too low, and give what lies above it."""
    given = Client((0, 4), given=(Message(5), Message(6), Message(7)))
    outcome = reader(Recording())._read(given, wanted(5, 8))
    assert (given.assigned, outcome.reached, outcome.complete) == ([5], 8, True)
    refused = Client((0, 4), given=(Message(-1, OUT_OF_RANGE),))
    outcome = reader(Recording())._read(refused, wanted(5, 8))
    assert (outcome.reached, outcome.complete, outcome.error) == (5, False, "end of log at 4")
    within = Client((0, 20), given=(Message(-1, OUT_OF_RANGE),))
    error = reader(Recording())._read(within, wanted(5, 8)).error
    assert error is not None
    assert not error.startswith(("end of log", "silence"))
    unknown = Client(KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert not reader(Recording())._read(unknown, wanted(5, 8)).silent
    assert unknown.assigned == []


def test_an_end_of_the_log_is_asked_for_again_once_its_leader_is_known() -> None:
    """Without a record only the leader epoch says whose end it is; the one that was known before it counts."""
    early = wanted(5, 8, told=None)
    assert folded(early, Message(5), Message(6, EOF)) == ([5], None)
    assert not early.asks_again()
    for nothing in (statistics(leader=-1), json.dumps({"topics": {}})):
        early._leader(nothing)
        assert not early.asks_again()
    early._leader(statistics(epoch=3))
    early._leader(statistics(epoch=4))
    assert early.asks_again()
    assert [place.offset for place in early.place()] == [6]
    assert not early.asks_again()
    assert folded(early, Message(6, EOF)) == ([], (6, False, "end of log at 6"))
    assert early._leader.epoch == 3


def test_brokers_without_leader_epochs_leave_it_open_whose_end_it_was() -> None:
    old = wanted(5, 8, told=statistics(epoch=-1))
    assert folded(old, Message(5, EOF)) == ([], (5, False, "end of log at 5"))
    assert old._leader.epoch is None


def test_a_range_at_the_logs_end_is_waited_for() -> None:
    """What was appended since may be read, and the broker's end of partition says if nothing was."""
    client = Client((0, 5))
    assert reader(Recording())._begin(client, wanted(5, 8), of_client(Recording())) is None
    assert client.assigned == [5]


def test_bounds_are_asked_for_again_while_the_leader_does_not_answer() -> None:
    client = Client(KafkaError._TRANSPORT, KafkaError._TIMED_OUT, (0, 20))
    assert reader(Recording(), silence_s=60)._bounds(client, wanted(5, 8)) == (0, 20)
    assert client.asked == 3


def test_a_topic_that_is_not_there_is_not_asked_for_again() -> None:
    client = Client(KafkaError.UNKNOWN_TOPIC_OR_PART, (0, 20))
    outcome = reader(Recording(), silence_s=60)._bounds(client, wanted(5, 8))
    assert outcome == reread._Outcome(5, complete=False, error=outcome[2], silent=False)  # type: ignore[misc]
    assert client.asked == 1


def test_silence_before_and_while_reading_is_silence_and_a_stop_is_not() -> None:
    dead = reader(Recording())._bounds(Client(KafkaError._TRANSPORT), wanted(5, 8))
    quiet = reader(Recording())._read(Client((0, 20)), wanted(5, 8))
    stopped = reader(Recording())
    stopped.ask_stop()
    ends = [dead, quiet, stopped._bounds(Client((0, 20)), wanted(5, 8)), stopped._read(Client((0, 20)), wanted(5, 8))]
    assert [end.silent for end in ends if isinstance(end, reread._Outcome)] == [True, True, False, False]
    assert [end.complete for end in ends if isinstance(end, reread._Outcome)] == [False] * 4
    assert [end.error for end in ends[1:] if isinstance(end, reread._Outcome)] == [
        "silence for 0.3 s", "stopped", "stopped",
    ]  # fmt: skip


def test_a_pause_is_no_silence_until_it_is_as_long() -> None:
    client = Client((0, 20), given=(None, Message(5), None, None, Message(6), Message(7)))
    outcome = reader(Recording(), silence_s=60)._read(client, wanted(5, 8))
    assert (outcome.reached, outcome.complete, outcome.silent) == (8, True, False)


def test_what_is_given_is_told_and_the_last_of_it_ends_the_reading() -> None:
    inbox, client = Recording(), Client((0, 20), given=(Message(5), Message(6), Message(7)))
    outcome = reader(inbox)._read(client, wanted(5, 8))
    assert (outcome.reached, outcome.complete, outcome.error) == (8, True, None)
    assert [fact.offset for fact in inbox.of(Polled)] == [5, 6, 7]


def test_a_request_without_a_client_is_answered_and_its_partition_is_free_again() -> None:
    inbox = Recording()
    one = reader(inbox, **{"no.such.property": 1})
    for number in (1, 2):
        one._queue.put(request(5, 8, number))
        taken = one._queue.take(0)
        assert taken is not None
        one._answer(taken)
    assert [(ended.request_id, ended.reached, ended.complete) for ended in inbox.of(RereadEnded)] == [
        (1, 5, False),
        (2, 5, False),
    ]


class Waited(threading.Condition):
    """A condition that tells when a thread begins to wait for it, which then lets go of its lock."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.begun.set()
        return super().wait(timeout)


def test_whoever_waits_for_a_request_is_woken_by_it() -> None:
    queue = _Queue()
    queue._changed = waited = Waited()
    taken: list[RereadRequest | None] = []
    waiting = threading.Thread(target=lambda: taken.append(queue.take(600)), daemon=True)
    waiting.start()
    in_time(waited.begun.wait(60), "what is waited for")
    queue.put(request(0, 1))
    joined(waiting)
    assert [one.request_id for one in taken if one is not None] == [1]


def test_a_partition_that_was_heard_again_is_not_behind_the_others() -> None:
    queue = _Queue()
    for silent in (True, False):
        queue.put(request(0, 1))
        taken = queue.take(0)
        assert taken is not None
        queue.done(taken, silent=silent)
    queue.put(request(0, 1, number=2))
    queue.put(RereadRequest(3, TOPIC, 1, "read_committed", 0, 1, "confirm"))
    first = queue.take(0)
    assert first is not None
    assert first.request_id == 2


@pytest.fixture
def config() -> Iterator[dict[str, Any]]:
    """librdkafka's mock cluster with twenty probes in the topic's only partition."""
    cluster = Producer({"test.mock.num.brokers": 1, "allow.auto.create.topics": True, "linger.ms": 5})
    for sequence in range(20):
        cluster.produce(TOPIC, probe(sequence), partition=0)
    in_time(cluster.flush(60) == 0, "all acknowledgements")
    address = next(iter(cluster.list_topics(timeout=30).brokers.values()))
    yield {"bootstrap.servers": f"{address.host}:{address.port}"}
    cluster.purge()


@pytest.fixture
def answers(config: dict[str, Any]) -> Iterator[Callable[..., tuple[Recording, dict[int, RereadEnded]]]]:
    """A function that lets a worker answer requests, and returns all facts and each request's end."""
    started: list[RereadWorker] = []

    def answer(*requests: RereadRequest, made: Callable[[], Any] = lambda: config) -> Any:
        inbox = Recording()
        worker = RereadWorker(made, tags, inbox, CLOCK, silence_s=30, threads=1)
        for one in requests:
            worker.ask(one)
        assert len(worker._queue._waiting) == len(requests)
        worker.start()
        started.append(worker)
        inbox.wait(lambda: len(inbox.of(RereadEnded)) == len(requests))
        assert worker.alive
        assert worker.failure is None
        return inbox, {ended.request_id: ended for ended in inbox.of(RereadEnded)}

    yield answer
    assert all(worker.stop(60) for worker in started)


def tags(topic: str) -> bytes:
    return {TOPIC: TAG}[topic]


def test_a_request_is_answered_with_its_range_and_nothing_else(
    answers: Callable[..., tuple[Recording, dict[int, RereadEnded]]],
) -> None:
    inbox, ended = answers(request(5, 8), request(15, 30, 2, isolation="read_uncommitted"))
    told = [fact for fact in inbox.facts if isinstance(fact, (Positioned, Polled))]
    places = [(fact.consumer, fact.isolation, fact.offset) for fact in told]
    first, second = ("reread-1", "read_committed"), ("reread-2", "read_uncommitted")
    assert places == [(*first, n) for n in (5, 5, 6, 7)] + [(*second, n) for n in (15, *range(15, 20))]
    assert [(one.reached, one.complete, one.error) for one in ended.values()] == [
        (8, True, None),
        (20, False, "end of log at 20"),
    ]
    assert [(one.isolation, one.topic, one.partition, one.start, one.end) for one in ended.values()] == [
        ("read_committed", TOPIC, 0, 5, 8),
        ("read_uncommitted", TOPIC, 0, 15, 30),
    ]


def test_a_request_that_cannot_be_asked_is_answered_too_and_the_next_one_read(
    answers: Callable[..., tuple[Recording, dict[int, RereadEnded]]], config: dict[str, Any]
) -> None:
    configs = iter([{**config, "no.such.property": 1}, config])
    _, ended = answers(request(5, 8), request(5, 8, 2), made=lambda: next(configs))
    assert (ended[1].reached, ended[1].complete) == (5, False)
    assert "no.such.property" in (ended[1].error or "")
    assert ended[2].complete


def test_an_answer_is_waited_for_longer_each_time() -> None:
    """A fresh client asks a dead broker first, maybe; and one that is slow to answer is given its time."""
    client, waited = Client(KafkaError._TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._TIMED_OUT, (0, 20)), list[float]()
    ask = client.get_watermark_offsets

    def asking(_place: object, timeout: float) -> tuple[int, int]:
        waited.append(timeout)
        return ask(_place, timeout)

    client.get_watermark_offsets = asking  # type: ignore[method-assign]
    assert reader(Recording(), silence_s=60)._bounds(client, wanted(5, 8)) == (0, 20)
    assert waited == [0.25, 0.5, 1.0, 1.0]


def test_a_broker_tells_the_end_of_a_log_at_once_unless_the_settings_let_it_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = list[Any]()

    def opening(config: Any, *_: object) -> Client:
        opened.append(config)
        return Client((0, 8), given=(Message(7),))

    monkeypatch.setattr(reread, "open_consumer", opening)
    for set_ms in ({}, {"fetch.wait.max.ms": 70}):
        reader(Recording(), **set_ms)._answer(wanted(5, 8).request)
    assert [config["fetch.wait.max.ms"] for config in opened] == [10, 70]

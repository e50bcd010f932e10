"""The one queue: bounded, and nothing is dropped."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from canary import facts as f
from canary.runner.publishing.inbox import FactQueue
from tests.support.waiting import joined


def ticks(*numbers: int) -> list[f.Fact]:
    return [f.Tick(number) for number in numbers]


def test_what_is_put_at_once_stays_together_and_in_order() -> None:
    inbox = FactQueue()
    inbox.put(ticks(1, 2))
    inbox.put([])
    inbox.put(ticks(3))
    assert inbox.pending == 3
    assert inbox.gather(0.001, 2) == ticks(1, 2)
    assert inbox.gather(0.001, 10) == ticks(3)
    assert inbox.gather(0.001, 10) == []


def test_what_is_not_wanted_is_left_out() -> None:
    inbox = FactQueue(lambda fact: fact.at_ns != 2)
    inbox.put(ticks(1, 2, 3))
    inbox.put(ticks(2))
    assert inbox.pending == 2
    assert inbox.gather(0.001, 10) == ticks(1, 3)


def test_a_gathered_fact_is_pending_until_it_is_durable() -> None:
    inbox = FactQueue()
    inbox.put(ticks(1, 2))
    assert inbox.gather(0.001, 1) == ticks(1, 2)
    inbox.put(ticks(3))
    assert inbox.pending == 3
    inbox.settle()
    assert inbox.pending == 1
    inbox.settle()
    assert inbox.pending == 1


def test_a_waiting_judge_is_given_what_comes() -> None:
    inbox, found = FactQueue(), list[f.Fact | f.Batch[Any]]()
    judge = threading.Thread(target=lambda: found.extend(inbox.gather(3600, 2)), daemon=True)
    judge.start()
    inbox.put(ticks(1))
    inbox.put(ticks(2))
    joined(judge)
    assert found == ticks(1, 2)


def test_senders_pause_before_anybody_has_to_wait_and_go_on_when_half_is_left() -> None:
    inbox = FactQueue(pause_at=4, bound=8)
    inbox.put(ticks(1, 2, 3))
    assert (inbox.paused, inbox.crowded_s) == (False, 0.0)
    inbox.put(ticks(4))
    assert inbox.crowded_s > 0.0
    inbox.put(ticks(5))
    inbox.gather(0.001, 3)  # 1, 2, 3
    inbox.settle()
    said = [(inbox.pending, inbox.paused)]
    inbox.gather(0.001, 1)
    inbox.settle()
    said.append((inbox.pending, inbox.paused))
    assert said == [(2, True), (1, False)]


def test_senders_pause_as_long_as_nothing_becomes_durable() -> None:
    inbox = FactQueue()
    said = []
    for halted in (True, False):
        inbox.halt(halted=halted)
        said.append((inbox.paused, inbox.crowded_s))
    assert said == [(True, 0.0), (False, 0.0)]


def test_at_the_bound_whoever_puts_waits_and_nothing_is_dropped() -> None:
    inbox = FactQueue(pause_at=2, bound=4)
    inbox.put(ticks(1, 2, 3))
    inbox.put(ticks(4, 5))  # together, though the bound is between them
    tail = threading.Thread(target=lambda: inbox.put(ticks(6)), daemon=True)
    tail.start()
    tail.join(0.2)
    assert tail.is_alive()
    assert inbox.gather(0.001, 3) == ticks(1, 2, 3)
    tail.join(0.2)
    assert tail.is_alive(), "what was gathered is not durable yet"
    inbox.settle()
    joined(tail)
    assert inbox.gather(0.001, 10) == ticks(4, 5, 6)


def test_at_the_end_nobody_waits() -> None:
    inbox = FactQueue(pause_at=1, bound=1)
    inbox.put(ticks(1))
    tails = [threading.Thread(target=lambda n=n: inbox.put(ticks(n)), daemon=True) for n in (2, 3)]
    tails[0].start()
    inbox.release()
    joined(tails[0])
    tails[1].start()
    joined(tails[1])
    assert inbox.gather(0.001, 10) == ticks(1, 2, 3)


@pytest.mark.parametrize(
    "sign",
    [
        f.PartitionSeen(1, 1, "t", 0, 2, "1,2", "2"),
        f.OutOfRange(1, "tail", "read_committed", "t", 0, 5, "gone"),
        f.RereadEnded(1, 1, "read_committed", "t", 0, 0, 9, 5, complete=False),
    ],
)
def test_a_sign_of_a_loss_is_not_gathered_and_the_next_facts_are(sign: f.Fact) -> None:
    inbox, found = FactQueue(), list[f.Fact | f.Batch[Any]]()
    judge = threading.Thread(target=lambda: found.extend(inbox.gather(3600, 100)), daemon=True)
    judge.start()
    while not inbox._enough:  # it waits
        time.sleep(0.001)
    inbox.put(ticks(1))
    inbox.put([sign])
    joined(judge)
    assert found == [*ticks(1), sign]
    inbox.put(ticks(2))
    began = time.monotonic()
    assert inbox.gather(0.05, 100) == ticks(2)
    assert time.monotonic() - began >= 0.05

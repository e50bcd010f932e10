"""The thread that draws places to be read again."""

from __future__ import annotations

from canary.facts import RandomReadAsked
from canary.probing.readers.random_reads import RECORDS, RandomReader
from canary.threads.ports import SteadyClock
from tests.support.recording import Recording
from tests.support.waiting import in_time

LOGS = [("a", 0, 5, 9), ("a", 1, 7, 7), ("b", 0, 0, 1000)]


def reader(inbox: Recording, every_s: float | None, logs: list[tuple[str, int, int, int]] = LOGS) -> RandomReader:
    return RandomReader(lambda: list(logs), every_s=every_s, inbox=inbox, clock=SteadyClock())


def test_places_are_within_what_is_retained_and_come_round() -> None:
    inbox = Recording()
    part = reader(inbox, 0.001)
    part.start()
    inbox.wait(lambda: len(inbox.of(RandomReadAsked)) >= 200)
    in_time(part.stop(30))
    asked = inbox.of(RandomReadAsked)
    assert {(one.topic, one.partition) for one in asked} == {("a", 0), ("b", 0)}
    assert {one.start for one in asked if one.topic == "a"} == set(range(5, 9))
    others = {one.start for one in asked if one.topic == "b"}
    assert len(others) > 30
    assert others <= set(range(1000))
    assert {one.records for one in asked} == {RECORDS}


def test_where_nothing_is_retained_or_it_is_off_nothing_is_asked() -> None:
    for every_s, logs in ((0.001, LOGS[1:2]), (0.001, []), (None, LOGS)):
        inbox = Recording()
        part = reader(inbox, every_s, logs)
        part.start()
        assert not part.stopping.wait(0.1)
        assert part.alive
        in_time(part.stop(30))
        assert inbox.facts == []

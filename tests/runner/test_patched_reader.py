"""What stands between the log and its reader may drop, repeat, swap, alter, misplace, or show what it must not.

Real brokers, and one runner whose tail consumers are given what a patched client makes of it: every fault once, each in
a partition of its own or in a transaction of its own, and each must be flagged under its right name once.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from canary.probe.record import Probe, decode
from canary.probing.readers import tail
from canary.probing.readers.consumer import take
from canary.probing.session import Session
from canary.runner.cluster.cluster import ClusterRunner
from canary.settings import load
from storage.store import Store
from storage.store.values import ViolationFilter
from tests.support import stores
from tests.support.process import START_S
from tests.support.waiting import BUSY, in_time, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from canary.lab import Lab

pytestmark = pytest.mark.kafka

MAIN, TRANSACTIONAL = "patched", "patched-transactional"
PATIENCE_S = 30.0

Place = tuple[str, str, int, int]
"""Kind, topic, partition, offset."""


class Forged:
    """A delivery as the patched client tells it."""

    def __init__(self, message: Any, *, offset: int | None = None, value: bytes | None = None) -> None:
        self._message = message
        self._offset = offset
        self._value = value

    def offset(self) -> int:
        return int(self._message.offset()) if self._offset is None else self._offset

    def value(self) -> bytes:
        return bytes(self._message.value()) if self._value is None else self._value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)


def altered(message: Any) -> Forged:
    value = bytearray(message.value())
    value[70] ^= 0x10
    return Forged(message, value=bytes(value))


@dataclass
class Fault:
    """What happens to ``needs`` consecutive records of a partition, once; ``at`` is the first one's offset."""

    name: str
    kind: str
    needs: int
    happen: Callable[[list[Any]], list[Any]]
    shift: int = 0
    held: list[Any] = field(default_factory=list)
    at: int | None = None

    def expected(self, partition: int) -> Place:
        assert self.at is not None, f"{self.name} has not happened"
        return self.kind, MAIN, partition, self.at + self.shift


def faults() -> list[Fault]:
    """Return one for each partition."""
    return [
        Fault("dropped", "poll-skip", 2, lambda m: m[1:]),
        Fault("repeated", "nonmonotonic-poll", 2, lambda m: [m[0], m[0], *m[1:]]),
        Fault("swapped", "nonmonotonic-poll", 2, lambda m: [m[1], m[0], *m[2:]]),
        Fault("altered", "corrupt", 1, lambda m: [altered(m[0]), *m[1:]]),
        # the record is shown two further on, in the place of that one
        Fault("shifted", "inconsistent-offsets", 3, lambda m: [Forged(m[0], offset=m[0].offset() + 2), *m[3:]], 2),
    ]


class Patch:
    """Between the clients and the tail consumers; only what read_committed ones are given is touched."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.shown: dict[str, Place] = {}
        self.early = self.aborted = False
        self._changed = threading.Condition()
        self._uncommitted: dict[int, Any] = {}
        self._positions: dict[int, int] = {}
        self._to_show: Any = None
        self._shown_to: Any = None
        """Who was shown it, until that one takes again: then it has noted when it was given it."""
        self._frozen: int | None = None
        self._kept: list[Any] = []
        self._given: set[tuple[int, int]] = set()

    # what consumers are given

    def take(self, client: Any, timeout_s: float, report: Any) -> list[Any]:
        with self._changed:
            if self._shown_to is client:
                self._shown_to = self._to_show = None
                self._changed.notify_all()
        messages: list[Any] = take(client, timeout_s, report)
        with self._changed:
            if "read_uncommitted" in report._client:
                self._note(messages)
                return messages
            if client.assignment()[0].topic == TRANSACTIONAL:
                return self._transactional(client, messages)
            return [m for one in messages for m in self._plain(one)]

    def _plain(self, message: Any) -> list[Any]:
        fault = self.faults[message.partition()] if self.faults else None
        if fault is None or fault.at is not None:
            return [message]
        if message.error() is not None:
            return [] if fault.held else [message]  # an end after what is held back would be a lie of the test's
        fault.held.append(message)
        if len(fault.held) < fault.needs:
            return []
        fault.at = int(fault.held[0].offset())
        given: list[Any] = fault.happen(fault.held)
        return given

    def _note(self, messages: list[Any]) -> None:
        for message in messages:
            if message.topic() == TRANSACTIONAL and message.error() is None:
                content = decode(message.value(), None)
                if isinstance(content, Probe) and content.transaction_id is not None:
                    self._uncommitted[content.transaction_id] = message
                    self._changed.notify_all()

    def _transactional(self, client: Any, messages: list[Any]) -> list[Any]:
        out: list[Any] = []
        for message in messages:
            place = (message.partition(), message.offset())
            if message.partition() == self._frozen:
                self._kept.append(message)
            elif place not in self._given or message.error() is not None:
                out.append(message)
                self._positions[message.partition()] = message.offset() + (message.error() is None)
                self._changed.notify_all()
        wanted = self._to_show
        if wanted is not None:
            kept, self._kept, self._shown_to, self._frozen = self._kept, [], client, None
            self._given.add((wanted.partition(), wanted.offset()))
            out += [wanted, *kept]
        return out

    # what transactions do meanwhile

    def _written(self, number: int) -> Any:
        """Return what the open transaction wrote, once read_committed consumers stand just before it."""

        def reached() -> bool:
            message = self._uncommitted.get(number)
            return message is not None and self._positions.get(message.partition()) == message.offset()

        assert self._changed.wait_for(reached, BUSY * PATIENCE_S), f"transaction {number} is not where readers stand"
        return self._uncommitted[number]

    def _show(self, kind: str, message: Any) -> None:
        self._to_show = message
        assert self._changed.wait_for(lambda: self._to_show is None, BUSY * PATIENCE_S), f"{kind} could not be shown"
        self.shown[kind] = (kind, TRANSACTIONAL, message.partition(), message.offset())

    def commit(self, original: Callable[..., None], session: Session, *arguments: Any) -> None:
        if self.early and session.open is not None and not session.settling:
            self.early = False
            with self._changed:
                self._show("precommitted-read", self._written(session.open.number))
        original(session, *arguments)

    def abort(self, original: Callable[..., None], session: Session, *arguments: Any) -> None:
        if not self.aborted or session.open is None:
            original(session, *arguments)
            return
        self.aborted = False
        with self._changed:
            message = self._written(session.open.number)
            self._frozen = message.partition()
        original(session, *arguments)
        with self._changed:
            self._show("G1a", message)


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Patch:
    found = Patch()
    commit, abort = Session.commit, Session.abort
    monkeypatch.setattr(tail, "take", found.take)
    monkeypatch.setattr(tail, "GATHER_S", 2.0)  # a commit is over long before a reader tells what it was given
    monkeypatch.setattr(Session, "commit", lambda session, *args: found.commit(commit, session, *args))
    monkeypatch.setattr(Session, "abort", lambda session, *args: found.abort(abort, session, *args))
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as opened:
        stores.upgrade(opened)
        yield opened


def violations(store: Store) -> list[Place]:
    page = store.violations.page(ViolationFilter(), None, 500)
    return sorted((v.kind, v.topic, v.partition or 0, v.offset or 0) for v in page.items if v.severity != "info")


def quiet(runner: ClusterRunner) -> bool:
    """Say whether nothing is in doubt, nor read again, nor waits for the store, in three looks of a second each."""
    for _ in range(3):
        assert runner.published is not None
        shown = runner.published
        if shown.suspects or any(p.rereading for p in shown.partitions):
            return False
        time.sleep(1)  # a round of watching
    return True


def test_each_fault_between_log_and_reader_has_its_name_once(
    lab: Lab, tmp_path: Path, store: Store, patch: Patch
) -> None:
    config = tmp_path / "canary.yaml"
    modes = "{idempotent: {}, transactional: {interval: 200ms, partitions: 1, records: 1, abort_percent: 40}}"
    config.write_text(
        f"clusters: [{{name: t, kafka: {{bootstrap.servers: '{lab.bootstrap}'}}, "
        f"topic: {{name: {MAIN}, partitions: {len(faults())}}}, modes: {modes}}}]\n"
        f"ledger: {{directory: {tmp_path}/ledger}}\nprobe_log: {{url: {tmp_path}/probe-log}}\n"
    )
    settings = load(config, {})
    runner = ClusterRunner(settings, settings.clusters[0], store)
    runner.start()
    try:
        in_time(runner.probing.wait(START_S), "what is waited for")
        until(lambda: len(patch._uncommitted) > 3, PATIENCE_S, "transactions are written")
        assert violations(store) == []
        patch.faults, patch.early = faults(), True
        until(lambda: all(fault.at is not None for fault in patch.faults), PATIENCE_S, "every fault happens")
        until(lambda: "precommitted-read" in patch.shown, PATIENCE_S, "a record is shown before its commit")
        patch.aborted = True
        until(lambda: "G1a" in patch.shown, PATIENCE_S, "a record is shown after its abort")
        expected = {fault.expected(number) for number, fault in enumerate(patch.faults)} | {*patch.shown.values()}
        until(lambda: set(violations(store)) >= expected, PATIENCE_S, f"{expected} are flagged")
        until(lambda: quiet(runner), PATIENCE_S, "nothing is in doubt any more")
        assert runner.alive
    finally:
        runner.stop(15)
    found = violations(store)
    number, shifted = next((n, fault) for n, fault in enumerate(patch.faults) if fault.name == "shifted")
    assert shifted.at is not None
    # nobody was given the record behind the shifted one, nor the one whose place it was shown in
    echoes = {("poll-skip", MAIN, number, shifted.at + 1), ("poll-skip", MAIN, number, shifted.at + 2)}
    assert set(found) - echoes == expected
    assert len(found) == len(set(found))

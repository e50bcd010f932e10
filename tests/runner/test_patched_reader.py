"""What stands between the log and its reader may drop, repeat, swap, alter or misplace: each under its right name."""

from __future__ import annotations

import queue
import time
from typing import TYPE_CHECKING, Any

import pytest

from canary.probing import tail
from canary.probing.reading import take
from canary.runner.cluster import ClusterRunner
from canary.settings import load
from storage.store import Store, ViolationFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from canary.lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.slow]  # the shifted record's echoes are not the same each time

PARTITION = 0


class Forged:
    """A delivery as the patched reader tells it."""

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


class Patch:
    """Between the clients and the tail consumers; only the read_committed one's records are touched."""

    def __init__(self) -> None:
        self.fault: Callable[[list[Any]], list[Any]] | None = None
        self.needs = 1
        self._at: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._held: list[Any] = []

    def arm(self, needs: int, fault: Callable[[list[Any]], list[Any]]) -> int:
        """Let ``fault`` happen to the next records, once; return the first one's offset when it has."""
        self.needs, self.fault = needs, fault
        return self._at.get(timeout=20)

    def take(self, client: Any, timeout_s: float, report: Any) -> list[Any]:
        messages = take(client, timeout_s, report)
        if "read_committed" not in report._client or self.fault is None:
            return messages
        found = [m for m in messages if m.error() is None and m.partition() == PARTITION]
        rest = [m for m in messages if m not in found]
        self._held += found
        if len(self._held) < self.needs:
            return rest
        fault, self.fault, held, self._held = self.fault, None, self._held, []
        self._at.put(held[0].offset())
        return rest + fault(held)


def altered(message: Any) -> Forged:
    value = bytearray(message.value())
    value[70] ^= 0x10
    return Forged(message, value=bytes(value))


FAULTS: dict[str, tuple[int, Callable[[list[Any]], list[Any]], str, int]] = {
    "dropped": (2, lambda m: m[1:], "poll-skip", 0),
    "repeated": (2, lambda m: [m[0], m[0], *m[1:]], "nonmonotonic-poll", 0),
    "swapped": (2, lambda m: [m[1], m[0], *m[2:]], "nonmonotonic-poll", 0),
    "altered": (1, lambda m: [altered(m[0]), *m[1:]], "corrupt", 0),
    "shifted": (3, lambda m: [Forged(m[0], offset=m[0].offset() + 2), *m[3:]], "inconsistent-offsets", 2),
}


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Patch:
    found = Patch()
    monkeypatch.setattr(tail, "take", found.take)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as opened:
        opened.upgrade()
        yield opened


def violations(store: Store) -> list[tuple[str, int | None, int | None]]:
    page = store.violations(ViolationFilter(), None, 500)
    return sorted((v.kind, v.partition, v.offset) for v in page.items if v.severity != "info")


def test_each_fault_between_log_and_reader_has_its_name_once(
    whole_lab: Lab, tmp_path: Path, store: Store, patch: Patch
) -> None:
    config = tmp_path / "canary.yaml"
    config.write_text(
        f"clusters: [{{name: t, kafka: {{bootstrap.servers: '{whole_lab.bootstrap}'}}, topic: {{name: patched}}}}]\n"
        f"ledger: {{directory: {tmp_path}/ledger}}\nprobe_log: {{url: {tmp_path}/probe-log}}\n"
    )
    settings = load(config, {})
    runner = ClusterRunner(settings, settings.clusters[0], store)
    runner.start()
    try:
        assert runner.probing.wait(60)
        seen: list[tuple[str, int | None, int | None]] = []
        for name, (needs, fault, kind, shift) in FAULTS.items():
            at = patch.arm(needs, fault)
            deadline = time.monotonic() + 20
            while (kind, PARTITION, at + shift) not in violations(store):
                assert time.monotonic() < deadline, (name, at, [v for v in violations(store) if v not in seen])
                time.sleep(0.1)  # asked of the store: there is no event to wait for
            time.sleep(4)  # the echoes, if there are any
            new = [v for v in violations(store) if v not in seen]
            # a record shown two further on: nobody was given the second, nor the third where it stands
            echoes = (
                {("poll-skip", PARTITION, at + 1), ("poll-skip", PARTITION, at + 2)} if name == "shifted" else set()
            )
            assert set(new) - echoes == {(kind, PARTITION, at + shift)}, name
            assert len(new) == len(set(new)), name
            seen += new
    finally:
        runner.stop(15)

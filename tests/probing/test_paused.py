"""While facts do not become durable, every writer sends nothing; then it goes on by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from canary.client.ports import SteadyClock
from canary.client.recording import Recording
from canary.probing.fencing import FencingProbe
from canary.probing.idempotent import IdempotentProducer, Renewal
from canary.probing.reading import Target
from canary.probing.relay import Relay
from canary.probing.session import Session
from canary.probing.transactional import TransactionalProducer

if TYPE_CHECKING:
    from canary.client.worker import Worker

UNDER = Renewal(1, b"tag1", (0, 1))
ASKED = 5
"""So often a writer looks whether it may send, before it may."""


def _never(reason: str) -> Renewal:
    raise AssertionError(reason)


def writers(inbox: Recording) -> dict[str, tuple[Worker, str]]:
    """Return a writer of each kind, and its method that sends."""
    values: dict[str, Any] = {
        "producer_id": 7,
        "interval_s": 0.001,
        "record_length": 96,
        "inbox": inbox,
        "clock": SteadyClock(),
        "renew": _never,
    }
    alone: dict[str, Any] = {"generation": 1, "tag": b"tag1", "mode": "idempotent"}
    spread: dict[str, Any] = {"spread": 1, "records": 1, "abort_percent": 0, "abandon_every_s": 3600, "most_ids": 1}
    in_time: dict[str, Any] = {"mode": "mode", "deliver_s": 1.0}
    return {
        "idempotent": (IdempotentProducer({}, "t", (0, 1), **values, **alone), "_beat"),
        "transactional": (TransactionalProducer(lambda _: {}, "t", UNDER, **values, **spread, **in_time), "_next"),
        "fencing": (FencingProbe({"transactional.id": "x"}, "t", UNDER, **values, **in_time), "_round"),
        "relay": (
            Relay({}, {}, "s", "t", UNDER, targets=lambda _: Target(None, b"", ()), most=1, **values, **in_time),
            "_relay",
        ),
    }


@pytest.mark.parametrize("kind", writers(Recording()))
def test_a_writer_that_is_to_pause_sends_nothing_and_goes_on_when_it_may(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Recording()
    writer, send = writers(inbox)[kind]
    looked, sent = list[bool](), list[bool]()

    class Looked(Recording):
        @property
        def paused(self) -> bool:
            looked.append(len(looked) < ASKED)
            return looked[-1]

        @paused.setter
        def paused(self, _paused: bool) -> None: ...

    def sends() -> bool:
        sent.append(bool(looked) and not looked[-1])
        writer.stopping.set()
        return False

    watched = Looked()
    monkeypatch.setattr(writer, "_inbox", watched, raising=False)
    if kind == "transactional":
        monkeypatch.setattr(writer._book, "inbox", watched)  # type: ignore[attr-defined]  # of this one
    monkeypatch.setattr(writer, send, sends)
    monkeypatch.setattr(Session, "ready", True)
    monkeypatch.setattr(writer, "_input", object(), raising=False)
    monkeypatch.setattr(writer, "_look_at", float("inf"), raising=False)
    for never in ("_open_client", "_serve", "_drain", "_give_up", "_leave"):
        monkeypatch.setattr(writer, never, lambda *_: None, raising=False)
    writer.run()
    assert looked == [True] * ASKED + [False]
    assert sent == [True]

"""While facts do not become durable, every writer sends nothing; then it goes on by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from canary.probing.fencing import FencingProbe
from canary.probing.idempotent import IdempotentProducer
from canary.probing.readers.consumer import Target
from canary.probing.relay import Relay
from canary.probing.session import Session
from canary.probing.transactional import TransactionalProducer
from tests.support.recording import Recording
from tests.support.wiring import wired

if TYPE_CHECKING:
    from canary.threads.worker import Worker

ASKED = 5
"""So often a writer looks whether it may send, before it may."""


def writers(inbox: Recording) -> dict[str, tuple[Worker, str]]:
    """Return a writer of each kind, and its method that sends."""

    def of(mode: str) -> Any:
        return wired(inbox, mode, interval=0.001, targets=lambda _: Target(None, b"", ()))

    return {
        "idempotent": (IdempotentProducer({}, of("idempotent")), "_beat"),
        "transactional": (TransactionalProducer(lambda _: {}, of("transactional")), "_next"),
        "fencing": (FencingProbe({"transactional.id": "x"}, of("fencing")), "_round"),
        "relay": (Relay({}, {}, "s", of("relay")), "_relay"),
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

    def sends(*_: object) -> bool:
        sent.append(bool(looked) and not looked[-1])
        writer.stopping.set()
        return False

    watched = Looked()
    monkeypatch.setattr(writer, "_inbox", watched)
    monkeypatch.setattr(writer, send, sends)
    monkeypatch.setattr(Session, "ready", True)
    monkeypatch.setattr(writer, "_input", object(), raising=False)
    monkeypatch.setattr(writer, "_look_at", float("inf"), raising=False)
    for never in ("_open_client", "_serve", "_drain", "_give_up", "_leave"):
        monkeypatch.setattr(writer, never, lambda *_: None, raising=False)
    writer.run()
    assert looked == [True] * ASKED + [False]
    assert sent == [True]

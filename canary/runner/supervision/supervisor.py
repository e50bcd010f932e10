"""The parts of a cluster's runner: what happens when one of them ends, and what keeps a runner from its work.

A part is a thread (canary.client.worker). PARTS has all of them, and a rule for each: it is started again, with growing
pauses, or the runner ends with a message and status 70, so that whoever started the process starts another one. What
cannot work now is a *trouble*: it is on /metrics and on the page while it lasts, and those in which losses would go
unnoticed are the violation ``blind``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from canary.client.pauses import Pauses
from canary.client.worker import Worker
from canary.probing.fencing import FencingProbe
from canary.probing.group import GroupProbe
from canary.probing.idempotent import IdempotentProducer
from canary.probing.relay import Relay
from canary.probing.reread import RereadWorker
from canary.probing.tail import TailConsumer
from canary.probing.transactional import TransactionalProducer
from canary.runner.flush import Flusher
from canary.runner.judge import Judge
from canary.runner.keeper import Keeper
from canary.runner.scrub import Scrubber
from canary.runner.shipping import Shipper
from canary.runner.troubles import Trouble
from canary.watching.audit import Auditor
from canary.watching.sampler import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from canary.runner.inbox import FactQueue
    from canary.runner.modes import Part

log = structlog.get_logger(__name__)

CROWDED_S = 5.0
"""So long senders may pause for a crowded queue before that is a trouble: a burst of re-reading is none."""
_LOOK_S = 0.25


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens when a part ends.

    ``again``: it is started again, else the runner ends. ``needed``: without it losses would go unnoticed.
    """

    again: bool
    needed: bool


PARTS: Mapping[type, Rule] = {
    Judge: Rule(again=False, needed=True),  # half a fold is no state to go on from: a new process replays the ledger
    Flusher: Rule(again=True, needed=True),
    Shipper: Rule(again=True, needed=False),
    Keeper: Rule(again=True, needed=False),
    Watcher: Rule(again=True, needed=True),
    Auditor: Rule(again=True, needed=False),
    Scrubber: Rule(again=True, needed=False),
    RereadWorker: Rule(again=True, needed=True),
    TailConsumer: Rule(again=True, needed=True),  # made anew by TopicProbes, where it stood
    IdempotentProducer: Rule(again=True, needed=True),  # writers: made anew by TopicProbes, under a new generation
    TransactionalProducer: Rule(again=True, needed=True),
    FencingProbe: Rule(again=True, needed=True),
    Relay: Rule(again=True, needed=True),
    GroupProbe: Rule(again=True, needed=True),
}
"""Every part of a cluster's runner, by its class."""


class Supervisor(Worker):
    """Looks after the parts of one cluster's runner.

    Args:
        inbox: the one queue.
        give_up: called with the reason, once, when the runner is to end with status FAILED.
    """

    def __init__(self, inbox: FactQueue, give_up: Callable[[str], None]) -> None:
        super().__init__("supervisor")
        self._inbox = inbox
        self._give_up = give_up
        self._parts: list[Part] = []
        self._lock = threading.Lock()
        self._pauses = Pauses()
        self._ended: dict[str, tuple[Rule, str]] = {}

    def begin(self, *parts: Part) -> None:
        """Start parts, and look after them from now on."""
        for part in parts:
            part.start()
            with self._lock:
                self._parts.append(part)

    def leave(self, *parts: Part) -> None:
        """Look after these no more: they are about to be stopped."""
        with self._lock:
            self._parts = [part for part in self._parts if part not in parts]

    def run(self) -> None:
        """Look until stopped."""
        try:
            while not self.stopping.wait(_LOOK_S):
                self.look()
        except Exception as error:
            self._give_up(f"its supervisor ended: {error!r}")
            raise

    def look(self) -> None:
        """Start again what has ended and may be started; give up when something ended for good."""
        with self._lock:
            for part in self._parts:
                if part.alive:
                    continue
                if not PARTS[type(part)].again:
                    self.stopping.set()
                    self._give_up(f"its {part.name} ended: {part.failure!r}")
                    return
                if self.may_start(part.name, part):
                    self._restart(part)

    def may_start(self, what: str, part: Part) -> bool:
        """Say whether ``part``, which has ended and is called ``what``, may be started again now."""
        self._ended[what] = (PARTS[type(part)], repr(part.failure))
        return self._pauses.may_start(what)

    def _restart(self, part: Part) -> None:
        log.error("part_started_again", part=part.name, failure=repr(part.failure))
        try:
            part.restart()
        except RuntimeError as error:  # no thread to be had: the next pause is longer
            log.warning("part_not_started", part=part.name, error=str(error))

    def troubles(self, judge: Judge) -> dict[str, Trouble | None]:
        """Return what each part, the ledger and the queue cannot do now; None for what works."""
        ledger = f"ledger {judge.directory}"
        found: dict[str, Trouble | None] = dict.fromkeys(
            [ledger, "queue", *(part.name for part in self._parts), *self._ended]
        )
        if judge.blocked is not None:
            found[ledger] = Trouble(judge.blocked, blind=True)
        elif judge.failing is not None:
            found[ledger] = Trouble(judge.failing, blind=False)
        if judge.blocked is None and self._inbox.crowded_s > CROWDED_S:
            words = "facts come faster than they become durable, and nothing is sent until few of them wait"
            found["queue"] = Trouble(words, blind=True)
        for part in self._parts:
            if isinstance(part, Shipper) and part.failing is not None:
                found[part.name] = Trouble(part.failing, blind=False)
        for what in self._pauses.failing():
            rule, failure = self._ended[what]
            found[what] = Trouble(f"its {what} ends again and again ({failure})", blind=rule.needed)
        return found

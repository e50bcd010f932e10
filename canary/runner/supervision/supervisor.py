"""The parts of a cluster's runner: what happens when one of them ends, and what keeps a runner from its work.

A part is a thread (canary.threads.worker). PARTS has all of them, and a rule for each: it is started again, with
growing pauses, or the runner ends with a message and status 70, so that the process is started again from outside.
What cannot work now is a *trouble*, which is on /metrics and on the page while it lasts. While losses would go
unnoticed because of one, there is the violation ``blind``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from canary.probing.base import Writer
from canary.probing.readers.random_reads import RandomReader
from canary.probing.readers.reread import RereadWorker
from canary.probing.readers.scrub import Scrubber
from canary.probing.readers.tail import TailConsumer
from canary.runner.publishing.flusher import Flusher
from canary.runner.publishing.inbox import FactQueue
from canary.runner.publishing.judge import Judge
from canary.runner.publishing.shipper import Shipper
from canary.runner.publishing.troubles import Trouble
from canary.runner.supervision.lease import LeaseRenewer
from canary.runner.topics.opener import TopicOpener
from canary.threads import system
from canary.threads.backoff import Pauses
from canary.threads.worker import Worker
from canary.watching.audit.auditor import Auditor
from canary.watching.elections.asking import WireWatcher
from canary.watching.elections.epoch_watcher import EpochWatcher
from canary.watching.elections.quorum_watcher import QuorumWatcher
from canary.watching.groups.group_watcher import GroupWatcher
from canary.watching.groups.transaction_watcher import TransactionWatcher
from canary.watching.log_sizes import LogSizeWatcher
from canary.watching.mirrormaker.mirror_watcher import MirrorWatcher
from canary.watching.replicas.scrubber import ReplicaScrubber
from canary.watching.sampler import Watcher
from canary.watching.topic_ids import TopicIdWatcher

log = structlog.get_logger(__name__)

CROWDED_S = 5.0
"""How long senders may pause for a crowded queue before that is a trouble; a burst of re-reads takes less."""
_LOOK_S = 1.0
HANGS_S = 30.0
"""A part hangs that makes no round for so long; one takes seconds, and up to 15 s on a machine that is busy."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens when a part ends.

    ``again``: it is started again, else the runner ends. ``needed``: without it losses would go unnoticed.
    ``hangs``: what is unknown while it makes no round; None: it has none, and what it no longer does shows elsewhere.
    """

    again: bool
    needed: bool
    hangs: str | None = None


PARTS: Mapping[type, Rule] = {
    Judge: Rule(again=False, needed=True),  # a half-done fold leaves no usable state: a new process replays the ledger
    Flusher: Rule(again=True, needed=True),
    Shipper: Rule(again=True, needed=False),
    LeaseRenewer: Rule(again=True, needed=False),
    Watcher: Rule(
        again=True,
        needed=True,
        hangs="what is newer of leaders, ends of logs and ids of topics is unknown, and no loss can be confirmed",
    ),
    Auditor: Rule(again=True, needed=False),
    GroupWatcher: Rule(again=True, needed=False),
    TransactionWatcher: Rule(again=True, needed=False),
    EpochWatcher: Rule(again=True, needed=False),
    QuorumWatcher: Rule(again=True, needed=False),
    LogSizeWatcher: Rule(again=True, needed=False),
    TopicIdWatcher: Rule(again=True, needed=False),
    ReplicaScrubber: Rule(again=True, needed=False),
    MirrorWatcher: Rule(again=True, needed=False),
    Scrubber: Rule(again=True, needed=False),
    TopicOpener: Rule(again=True, needed=True),  # ClusterClients takes what it has found
    RandomReader: Rule(again=True, needed=False),
    RereadWorker: Rule(again=True, needed=True),
    TailConsumer: Rule(again=True, needed=True),  # TopicProbes makes a new one, from its position
    Writer: Rule(again=True, needed=True),  # TopicProbes makes a new one, under a new generation
}
"""Every part of a cluster's runner, by its class or the base of that."""
_SAYING = (Shipper, GroupWatcher, TransactionWatcher, ReplicaScrubber, WireWatcher, MirrorWatcher)
"""Those that say themselves, as ``failing``, what they cannot do."""


def rule_of(part: Worker) -> Rule:
    """Return what happens when a part ends."""
    return next(PARTS[one] for one in type(part).__mro__ if one in PARTS)


class Supervisor(Worker):
    """Restarts the parts of one cluster's runner; ``give_up`` is called with a reason when the runner must end."""

    def __init__(self, inbox: FactQueue, give_up: Callable[[str], None]) -> None:
        super().__init__("supervisor")
        self._inbox = inbox
        self._give_up = give_up
        self._parts: list[Worker] = []
        self._lock = system.lock()
        self._pauses = Pauses()
        self._ended: dict[str, tuple[Rule, str]] = {}
        self._still: dict[str, tuple[int, float]] = {}
        """By part: its rounds at the last look, and for how long (s) there was no other one while we looked."""
        self._looked_at = system.monotonic()

    def begin(self, *parts: Worker) -> None:
        """Start parts, and restart them from now on when they end."""
        for part in parts:
            part.start()
            with self._lock:
                self._parts.append(part)

    def leave(self, *parts: Worker) -> None:
        """Stop looking after these parts: they are about to be stopped."""
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
        now = system.monotonic()
        passed_s, self._looked_at = min(now - self._looked_at, 2 * _LOOK_S), now  # a paused process did not look
        with self._lock:
            for part in self._parts:
                turns, still_s = self._still.get(part.name, (part.turns, 0.0))
                self._still[part.name] = part.turns, still_s + passed_s if turns == part.turns else 0.0
            for part in self._parts:
                if part.alive:
                    continue
                if not rule_of(part).again:
                    self.stopping.set()
                    self._give_up(f"its {part.name} ended: {part.failure!r}")
                    return
                if self.may_start(part.name, part):
                    self._restart(part)

    def may_start(self, what: str, part: Worker) -> bool:
        """Return whether ``part``, which has ended and is called ``what``, may be started again now."""
        self._ended[what] = (rule_of(part), repr(part.failure))
        return self._pauses.may_start(what)

    def _restart(self, part: Worker) -> None:
        log.error("part_started_again", part=part.name, failure=repr(part.failure))
        try:
            part.restart()
        except RuntimeError as error:  # the system gives no thread: the next pause is longer
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
            if isinstance(part, _SAYING) and part.failing is not None:
                found[part.name] = Trouble(part.failing, blind=False)
        for part in self._parts:
            hangs = rule_of(part).hangs
            if hangs is not None and part.alive and self._still.get(part.name, (0, 0.0))[1] > HANGS_S:
                words = f"its {part.name} has asked the cluster nothing for more than {HANGS_S:g} s: {hangs}"
                found[part.name] = Trouble(words, blind=rule_of(part).needed)
        for what in self._pauses.failing():
            rule, failure = self._ended[what]
            found[what] = Trouble(f"its {what} ends again and again ({failure})", blind=rule.needed)
        return found

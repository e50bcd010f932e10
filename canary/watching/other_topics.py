"""The topics that the canary does not write to: changed leaders and replicas, from one Metadata answer.

An answer about 10,000 partitions costs some 40 ms of CPU in the client and as much here; where a cluster is so large
that this would take more than a tenth of the time, it is asked less often.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError

from canary.anomalies.absence import Absences
from canary.facts import Fact, WatchedConfigured, WatchedGone, WatchedPartition
from canary.threads import system
from canary.watching.own_topics import ids
from canary.watching.selection import Selection

_SHARE = 10
"""At most a tenth of the time is spent on this."""
_CONFIGURED_S = 60.0
_AGAIN_S = 3.0
_CONFIGS_AT_ONCE = 100
_GONE_S = 10.0
"""A topic that is no longer listed is asked for by its name after so long; an answer without any topic, of a broker
that may not have learnt of them yet, counts only if there was no other for so long."""

_OF_THE_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED})
"""Errors that answer the question; after any other it is asked again."""

_State = dict[int, tuple[int, tuple[int, ...], tuple[int, ...]]]
"""Partition to leader, replicas, ISR, as the broker lists them."""


class OtherTopics:
    """Remembers the last facts of each topic, and makes facts of what is new. Both clocks are in s.

    ``known`` are the topics that are remembered from before, as far as they are not probed: one that there is not any
    more, or that is not watched any more, is gone like any other.
    """

    def __init__(
        self,
        selection: Selection,
        known: Iterable[str] = (),
        monotonic: Callable[[], float] = system.monotonic,
        cpu: Callable[[], float] = system.cpu_s,
    ) -> None:
        self._selection = selection
        self._monotonic = monotonic
        self._cpu = cpu
        self._seen: dict[str, _State] = {name: {} for name in known}
        self._absences = Absences()
        self._empty_since: float | None = None
        self._absent: dict[str, float] = {}
        """By topic that is watched and not listed any more, when it is to be asked for by its name."""
        self._degraded: set[str] = set()
        self._config_due: dict[str, float] = {}
        self._due = 0.0
        self.moved = False
        """Whether the last answer named another leader."""

    def due(self) -> bool:
        """Return whether it is time to ask."""
        return bool(self._selection or self._seen) and self._monotonic() >= self._due

    def seen(self, metadata: Any, ours: Iterable[str], sample: int, at_ns: int, asked_cpu: float) -> list[Fact]:
        """Return what an answer of list_topics() has that is new; ``asked_cpu`` is thread_time() before it."""
        skip = set(ours)
        facts: list[Fact] = []
        self.moved = False
        present = {n: t for n, t in metadata.topics.items() if n not in skip and self._selection.topic(n)}
        for name, topic in present.items():
            self._absent.pop(name, None)
            if topic.error is not None:
                continue
            now: _State = {
                number: (part.leader, tuple(part.replicas), tuple(part.isrs))
                for number, part in topic.partitions.items()
            }
            before = self._seen.get(name)
            if now != before:
                facts += self._changed(name, before or {}, now, sample, at_ns)
                self._seen[name] = now
        if self._knows_topics(metadata):
            facts += self._gone(present, sample, at_ns)
        self._due = self._monotonic() + _SHARE * (self._cpu() - asked_cpu)
        return facts

    def _changed(self, name: str, before: _State, now: _State, sample: int, at_ns: int) -> list[Fact]:
        facts: list[Fact] = []
        for number, state in sorted(now.items()):
            known = before.get(number)
            if known == state:
                continue
            leader, replicas, isr = state
            self.moved |= known is not None and known[0] != leader
            if known is None or (known[0], set(known[1]), set(known[2])) != (leader, set(replicas), set(isr)):
                facts.append(WatchedPartition(at_ns, sample, name, number, leader, ids(replicas), ids(isr)))
        if any(len(isr) < len(replicas) for _, replicas, isr in now.values()):
            self._degraded.add(name)
        else:
            self._degraded.discard(name)
        return facts

    def _knows_topics(self, metadata: Any) -> bool:
        """Whether an answer may be believed that lists no topic: it may be from a broker that knows of none yet."""
        if metadata.topics or len(self._seen) < 2:
            self._empty_since = None
            return True
        now = self._monotonic()
        self._empty_since = now if self._empty_since is None else self._empty_since
        return now - self._empty_since >= _GONE_S

    def _gone(self, present: Mapping[str, object], sample: int, at_ns: int) -> list[Fact]:
        """Return the topics that two answers in a row did not have: a broker may not have learnt of one yet."""
        gone = self._absences.gone(self._seen.keys(), present)
        for name in gone:
            del self._seen[name]
            self._degraded.discard(name)
            self._config_due.pop(name, None)
            if self._selection.topic(name):
                self._absent[name] = self._monotonic() + _GONE_S
        return [WatchedGone(at_ns, sample, name) for name in sorted(gone)]

    def doubted(self) -> list[str]:
        """Return the topics that are to be asked for by name: not listed may mean that the canary may not see them."""
        now = self._monotonic()
        return sorted(name for name, due in self._absent.items() if due <= now)

    def asked(self, name: str, error: KafkaError | None, sample: int, at_ns: int) -> list[Fact]:
        """Return what the answer to a question by name says of a topic that was not listed; ``error`` None: it is."""
        if name not in self._absent or (error is not None and error.code() not in _OF_THE_TOPIC):
            return []
        del self._absent[name]
        gone = error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        return [WatchedGone(at_ns, sample, name, by_name=True)] if gone else []

    def partitions(self, name: str) -> list[int]:
        """Return the partitions of a topic whose offsets are to be asked for."""
        return self._selection.offsets(name, sorted(self._seen.get(name, {})))

    def named(self, ours: Iterable[str]) -> list[str]:
        """Return the topics whose offsets are watched, as far as they exist."""
        skip = set(ours)
        return [name for name in self._selection.names if name not in skip and self._seen.get(name)]

    def unconfigured(self) -> list[str]:
        """Return topics with replicas out of sync whose min.insync.replicas should be asked for now."""
        now = self._monotonic()
        due = [name for name in sorted(self._degraded) if self._config_due.get(name, 0.0) <= now]
        return due[:_CONFIGS_AT_ONCE]

    def configured(self, name: str, min_insync_replicas: int | None, at_ns: int) -> Fact:
        """Return the answer as a fact."""
        self._config_due[name] = self._monotonic() + _CONFIGURED_S
        return WatchedConfigured(at_ns, name, min_insync_replicas)

    def unanswered(self, name: str) -> None:
        """Ask again soon: of replicas that have just gone out of sync, a broker may give no answer."""
        self._config_due[name] = self._monotonic() + _AGAIN_S

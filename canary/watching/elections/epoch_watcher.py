"""The thread that asks where the leader epochs of named topics begin."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from canary.metrics.watched.elections import EpochsWatched
from canary.threads import system
from canary.threads.ports import Clock, Inbox
from canary.watching.elections.asking import WireWatcher
from canary.watching.elections.lineages import Lineages, Place, Present
from canary.watching.selection import Selection
from canary.wire.errors import WireError

_NAMES_S: Final = 30.0
"""How often it is asked which topics there are."""
_GONE_S: Final = 5.0
"""The same while there is no answer about one: it may be gone."""
_MOST: Final = 20
"""Epochs of a log at first sight, the latest ones: elections while the canary was down."""


class EpochWatcher(WireWatcher):
    """Asks for leaders, high watermarks and, where an epoch is new, its boundary, until stopped.

    Args:
        topics: names or patterns.
        ours: topics that the canary writes to, which are left out: more is known of them.
        inbox: takes EpochSeen facts.

    ``latest`` is how much is known now, None before the first round.
    """

    def __init__(
        self,
        config: Mapping[str, object],
        topics: Sequence[str],
        ours: Iterable[str],
        inbox: Inbox,
        clock: Clock,
        interval_s: float,
    ) -> None:
        super().__init__("epoch-watcher", config, inbox, clock, interval_s)
        self._chosen = Selection(topics)
        self._ours = frozenset(ours)
        self._lineages = Lineages()
        self._names: list[str] = []
        self._names_due = float("-inf")
        self.latest: EpochsWatched | None = None

    def look(self, admin: Any) -> None:
        """Ask once."""
        from canary.wire import epochs  # noqa: PLC0415  # 23 MB, for whoever has this in the settings
        from canary.wire.replicas import described, names  # noqa: PLC0415  # the same

        if system.monotonic() >= self._names_due:
            found_now = {one for one in names(admin) if self._chosen.topic(one)}  # of what may not be described none
            self._names = sorted((found_now | self._chosen.literal) - self._ours)
            self._names_due = system.monotonic() + _NAMES_S
        errors: dict[Place, WireError] = {}
        leaderless = 0  # until one leads nothing can be cut; then its epoch is compared with what is known
        presents: dict[Place, Present] = {}
        for name, found in described(admin, self._names).items():
            if isinstance(found, WireError):
                errors[name, -1] = found
                self._names_due = min(self._names_due, system.monotonic() + _GONE_S)
                continue
            for one in found:
                if one.leader is None:
                    leaderless += 1
                elif one.leader_epoch < 0:
                    errors[name, one.partition] = WireError(f"{name}:{one.partition}: its leader epoch is not told")
                else:
                    presents[name, one.partition] = Present(one.topic_id, one.leader, one.leader_epoch)
        led = {place: epochs.Led(one.leader, one.epoch) for place, one in presents.items()}
        ends = epochs.high_watermarks(admin, led)
        wanted = self._lineages.wanted(presents)
        asked = {place: led[place] for place in wanted}
        begun = epochs.boundaries(admin, asked, known=wanted, most=_MOST)
        for answers in (ends, begun):
            errors |= {place: one for place, one in answers.items() if isinstance(one, WireError)}
        facts = self._lineages.facts(
            self._clock.now_ns(),
            presents,
            {
                place: [(each.epoch, each.start_offset) for each in one.epochs]
                for place, one in begun.items()
                if not isinstance(one, WireError)
            },
            {place: one for place, one in ends.items() if not isinstance(one, WireError)},
        )
        if facts:
            self._inbox.tell(facts)
        self._lineages.forget({place for place in self._lineages.places if place[0] not in self._names})
        self._know(len(presents.keys() | errors.keys()) + leaderless, errors)

    def _know(self, watched: int, errors: Mapping[Place, WireError]) -> None:
        refused = next((one for one in errors.values() if one.refused), None)
        self.failing = None if refused is None else f"watch.epochs: {refused} (docs/acl.md)"
        unknown, reason = len(errors), next((str(one) for one in errors.values()), None)
        if not watched:
            unknown, reason = 1, "no topic is matched: there is none, or the right to Describe it is missing"
        self.latest = EpochsWatched(self._clock.now_ns(), watched, unknown, reason)

    def unanswered(self, error: WireError) -> None:
        """Nothing is known now."""
        self.failing = f"watch.epochs: {error} (docs/acl.md)" if error.refused else None
        partitions = self.latest.partitions if self.latest is not None else 0
        self.latest = EpochsWatched(self._clock.now_ns(), partitions, max(1, partitions), str(error))

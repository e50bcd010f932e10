"""Which topics are watched though we do not write to them, and of which partitions the offsets."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate


class Selection:
    """Names as the settings have them, made ready to be asked often.

    Of ``topics``, names or patterns, leaders and replicas are watched, of ``offsets``, TOPIC or TOPIC:PARTITION, those.

    >>> chosen = Selection(["orders-*"], ["payments", "orders-1:0"])
    >>> chosen.topic("orders-9"), chosen.topic("payments"), chosen.topic("else")
    (True, True, False)
    >>> chosen.offsets("orders-1", [0, 1]), chosen.offsets("payments", [0, 1]), chosen.offsets("else", [0])
    ([0], [0, 1], [])
    """

    def __init__(self, topics: Iterable[str] = (), offsets: Iterable[str] = ()) -> None:
        patterns = list(topics)
        self.literal = frozenset(one for one in patterns if not set(one) & set("*?["))
        """Those of the topics that are names, no patterns."""
        self.patterns = frozenset(patterns) - self.literal
        self._pattern = re.compile("|".join(translate(one) for one in patterns)) if patterns else None
        self._known: dict[str, bool] = {}
        self._offsets: dict[str, set[int] | None] = {}
        for one in offsets:
            name, _, number = one.partition(":")
            if not number:
                self._offsets[name] = None
            elif (chosen := self._offsets.setdefault(name, set())) is not None:
                chosen.add(int(number))
        self.names = list(self._offsets)
        """Topics whose offsets are watched."""

    def __bool__(self) -> bool:
        """Whether anything is to be watched."""
        return self._pattern is not None or bool(self._offsets)

    def topic(self, name: str) -> bool:
        """Return whether the leaders and replicas of a topic are watched."""
        if name in self._offsets:
            return True
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._pattern is not None and self._pattern.match(name) is not None
        return found

    def offsets(self, name: str, partitions: Sequence[int]) -> list[int]:
        """Return of which of a topic's partitions the offsets are watched."""
        if name not in self._offsets:
            return []
        chosen = self._offsets[name]
        return [p for p in partitions if chosen is None or p in chosen]

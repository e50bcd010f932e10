"""An inbox that keeps everything: for tests, and for trying a part by hand."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from canary.facts import each

if TYPE_CHECKING:
    from collections.abc import Callable

    from canary.facts import Fact, Facts

Kind = TypeVar("Kind")


class Recording:
    """Facts in their order, and a way to wait for them. Grows without bound: nothing for production."""

    def __init__(self) -> None:
        self.paused = False
        self._facts: list[Fact] = []
        self._changed = threading.Condition(threading.RLock())

    def put(self, facts: Facts, /) -> None:
        """Keep the facts."""
        with self._changed:
            self._facts.extend(each(facts))
            self._changed.notify_all()

    @property
    def facts(self) -> list[Fact]:
        """Everything so far."""
        with self._changed:
            return list(self._facts)

    def of(self, kind: type[Kind], *, since: int = 0) -> list[Kind]:
        """Return the facts of one kind, from the ``since``-th of all facts on."""
        return [fact for fact in self.facts[since:] if isinstance(fact, kind)]

    def wait(self, reached: Callable[[], object], timeout: float = 90.0) -> None:
        """Return as soon as ``reached()``, looked at after every put, is true.

        Raises:
            TimeoutError: it was not within ``timeout`` seconds; names the kinds that came.
        """
        with self._changed:
            if not self._changed.wait_for(reached, timeout):
                kinds: dict[str, int] = {}
                for fact in self._facts:
                    kinds[type(fact).__name__] = kinds.get(type(fact).__name__, 0) + 1
                raise TimeoutError(f"not reached within {timeout:g} s; facts so far: {kinds}")

"""Finds or makes a probe topic beside the runner's loop: a question may take 15 s to stay without an answer."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from canary.threads.worker import Worker

T = TypeVar("T")
_AGAIN_S = 1.0
"""What got no answer is asked again after so long."""


class TopicOpener(Worker, Generic[T]):
    """Asks until there is an answer, and ends.

    Args:
        topic: its name.
        attempt: returns the answer to a question, None where there is none now (Connection).
        ensure: finds or makes the topic; False where it cannot be.
        make: makes what the topic is probed by, for which the store is asked.

    Attributes:
        found: what was made; None as long as there is no answer, or where the topic cannot be.
        done: whether there is an answer.
    """

    def __init__(
        self,
        topic: str,
        attempt: Callable[[Callable[[], Any], str], Any],
        *,
        ensure: Callable[[], bool],
        make: Callable[[], T],
    ) -> None:
        super().__init__(f"opener-{topic}")
        self.found: T | None = None
        self.done = False
        self._topic = topic
        self._attempt = attempt
        self._ensure = ensure
        self._make = make
        self._is_there: bool | None = None

    def run(self) -> None:
        """Ask until stopped, or until there is an answer."""
        while not self.stopping.is_set():
            if self._is_there is None:
                self._is_there = self._attempt(self._ensure, f"topic {self._topic}")
            if self._is_there:
                self.found = self._attempt(self._make, f"identity of {self._topic}")
            if self._is_there is False or self.found is not None:
                self.done = True
                return
            self.wait(_AGAIN_S)

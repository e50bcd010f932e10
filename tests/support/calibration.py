"""What a CPU-second of this machine is worth on the one that budgets are written for (docs/testing.md)."""

from __future__ import annotations

import time
from typing import Final

LOOP_S: Final = 0.08
"""CPU-seconds of one round of the loop where ``ruff check . && mypy`` takes 65 CPU-seconds from cold."""


def scale(rounds: int = 3) -> float:
    """Measure how many CPU-seconds of the budgets' machine one of this machine is worth, as busy as it is now."""
    began = time.process_time()
    for _ in range(rounds):
        _loop()
    return LOOP_S * rounds / (time.process_time() - began)


def _loop() -> None:
    """Do what most of the tests do: make small objects, call functions, fill dictionaries, sort."""
    counts: dict[tuple[str, int], int] = {}
    for i in range(100_000):
        key = f"partition-{i % 97}", i % 13
        counts[key] = counts.get(key, 0) + len(repr(i))
    sorted(counts.items(), key=lambda item: (item[1], item[0]))

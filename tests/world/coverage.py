"""Which harm met the canary in which state: what was looked at, and what never was."""

from __future__ import annotations

from collections import Counter

from tests.world.harms import HARMS


def table(pairs: Counter[tuple[str, str]]) -> str:
    """Return how often each harm struck in each state, as text."""
    states = sorted({state for _, state in pairs})
    width = max(map(len, HARMS))
    lines = [" " * width + "  " + "  ".join(f"{state:>12}" for state in states)]
    for name in HARMS:
        cells = "  ".join(f"{pairs[name, state] or '.':>12}" for state in states)
        lines.append(f"{name:{width}}  {cells}")
    met = sum(1 for pair in pairs if pairs[pair])
    return "\n".join([*lines, f"{met} of {len(HARMS) * len(states)} pairs were met"])

"""The kill matrix: which items fail with which mutation, and what each item costs; as JSON lines.

A line is ``{"item": id, "cpu_s": 0.2}``, measured with nothing broken, or ``{"file": …, "scope": …, "original": …,
"replacement": …, "failed": [ids]}``. A fixture that items share is counted with the first of them. A module that cannot
be imported stands for its items.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from simulation.search.edits import Edit


def costs(cpu_s: Mapping[str, float]) -> str:
    """Return lines of what items cost."""
    return "".join(json.dumps({"item": item, "cpu_s": round(spent, 3)}) + "\n" for item, spent in cpu_s.items())


def kills(edit: Edit, failed: Sequence[str]) -> str:
    """Return the line of what fails with an edit."""
    return json.dumps({**edit._asdict(), "failed": failed}) + "\n"


def spare(cpu_s: Mapping[str, float], killers: Sequence[Iterable[str]]) -> list[str]:
    """Return the items without which each mutation that is killed still is, chosen from the dearest to the cheapest.

    >>> spare({"dear": 9.0, "fair": 2.0, "cheap": 1.0}, [["dear", "cheap"], ["fair"], []])
    ['dear']
    """
    found = []
    left = [set(items) for items in killers]
    for item in sorted(cpu_s, key=lambda item: (-cpu_s[item], item)):
        if all(len(items) > 1 for items in left if item in items):
            found.append(item)
            for items in left:
                items.discard(item)
    return found


def report(lines: Iterable[str]) -> str:
    """Return the spare items of a matrix, each with its CPU seconds and the number of mutations that it kills."""
    rows = [json.loads(line) for line in lines]
    cpu_s = {row["item"]: row["cpu_s"] for row in rows if "item" in row}
    killers = [_items(row["failed"], cpu_s) for row in rows if "failed" in row]
    number = Counter(item for items in killers for item in items)
    found = spare(cpu_s, killers)
    saved, whole = sum(cpu_s[item] for item in found), sum(cpu_s.values())
    return "".join(f"{cpu_s[item]:9.3f} CPU-s {number[item]:5} kills  {item}\n" for item in found) + (
        f"{len(found)} of {len(cpu_s)} items, {saved:.1f} of {whole:.1f} CPU-s, kill nothing that others do not kill\n"
    )


def _items(failed: Iterable[str], known: Iterable[str]) -> set[str]:
    names = tuple(failed)
    return {item for item in known if any(item == name or item.startswith(f"{name}::") for name in names)}

"""``canary check`` on damaged files: a verdict, or one line that says where and what; no traceback, and no hang."""

from __future__ import annotations

import faulthandler
from typing import TYPE_CHECKING

from simulation.histories.simulator import simulate
from simulation.histories.wild import seeded, wild_history
from tests.history.test_history_reading import damaged, lines, op_to_edn
from tests.support.command import canary
from tests.support.seeds import cases

if TYPE_CHECKING:
    from pathlib import Path

LONGEST_S = 60
"""A file of some hundred lines that takes so long hangs."""


def history_of(seed: int) -> tuple[bytes, str]:
    """Return a small history as JSON Lines or EDN, damaged, and the name of its file."""
    history = simulate(seed, duration_s=0.4).history() if seed % 5 == 0 else wild_history(seeded(seed))
    if seed % 2:
        return damaged(seed, "\n".join(op_to_edn(op, seed // 2 + n) for n, op in enumerate(history)).encode()), "h.edn"
    return damaged(seed, lines(history)), "h.jsonl"


def refused(seed: int, folder: Path) -> bool:
    """Check one damaged file by the command; return whether it was refused, and not given a verdict."""
    data, name = history_of(seed)
    path = folder / name
    path.write_bytes(data)
    options = [[], ["--json"], ["--json", "--extras"], ["--html", str(folder / "page.html")]][
        seed % 4 if seed % 9 else 3
    ]
    faulthandler.dump_traceback_later(LONGEST_S, exit=True)
    try:
        said = canary("check", path, *options)
    finally:
        faulthandler.cancel_dump_traceback_later()
    assert said.status in (0, 1, 2), (seed, said)
    assert "Traceback" not in said.err + said.out
    if said.status != 2:
        assert said.out
        assert not said.err
        return False
    assert said.err.startswith(f"canary: {path}, line "), (seed, said.err)
    assert said.err.count("\n") == 1
    assert not said.out
    return True


def test_damaged_files_get_a_verdict_or_one_line(tmp_path: Path) -> None:
    """Of those drawn at random two in a hundred can be read; so one whose damage does no harm for each way to ask."""
    harmless = (548, 121, 598, 55)
    tried = {seed: refused(seed, tmp_path) for seed in cases("damaged files for the command", 100, *harmless)}
    assert not any(tried[seed] for seed in harmless)
    assert any(tried.values())

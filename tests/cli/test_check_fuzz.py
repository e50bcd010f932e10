"""``canary check`` on damaged files: a verdict, or one line that says where and what; no traceback, and no hang."""

from __future__ import annotations

import faulthandler
from typing import TYPE_CHECKING

import pytest

from canary.cli import main
from tests.generators.simulator import simulate
from tests.generators.wild import seeded, wild_history
from tests.history.test_history_reading import damaged, lines, op_to_edn
from tests.support.soaking import soak

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


def refused(seed: int, folder: Path, capfd: pytest.CaptureFixture[str]) -> int:
    """Check one damaged file by the command; return 1 if it was refused, 0 if there was a verdict."""
    data, name = history_of(seed)
    path = folder / name
    path.write_bytes(data)
    options = [[], ["--json"], ["--json", "--extras"], ["--html", str(folder / "page.html")]][
        seed % 4 if seed % 9 else 3
    ]
    faulthandler.dump_traceback_later(LONGEST_S, exit=True)
    try:
        with pytest.raises(SystemExit) as ended:
            main(["check", str(path), *options])
    finally:
        faulthandler.cancel_dump_traceback_later()
    said = capfd.readouterr()
    assert ended.value.code in (0, 1, 2), (seed, ended.value.code, said.err)
    assert "Traceback" not in said.err + said.out
    if ended.value.code != 2:
        assert said.out
        assert not said.err
        return 0
    assert said.err.startswith(f"canary: {path}, line "), (seed, said.err)
    assert said.err.count("\n") == 1
    assert not said.out
    return 1


def test_damaged_files_get_a_verdict_or_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert 60 < sum(refused(seed, tmp_path, capfd) for seed in range(100)) < 100


@pytest.mark.slow
@pytest.mark.timeout(14_400)
def test_ten_thousand_damaged_files_get_a_verdict_or_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def live(seed: int) -> int:
        refused(seed, tmp_path, capfd)
        return 1

    soak("fuzz", 10_000, live)

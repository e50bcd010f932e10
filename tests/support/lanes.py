"""A pytest plugin: the four lanes that run beside each other, by the resource that they use (option ``--lane``).

Each lane is one session, with one lab, one Spark and one PostgreSQL for all its items, whichever target they belong to.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from canary.lab.state import Profile

LANES: Final = ("calm", "quick", "spark", "cpu")
TOOLS: Final = "TESTS_TOOLS_PATH"
"""Names a file that will hold the PATH with other projects' programs (``.ci/tools``), once they are there."""
TOOLS_S: Final = 1800.0
"""How long they may take, the first time."""


def lane_of(item: pytest.Item) -> str:
    """Return the lane of an item, as its markers say."""
    if item.get_closest_marker("spark") is not None:
        return "spark"
    return "cpu" if item.get_closest_marker("kafka") is None else profile_of(item)


def profile_of(item: pytest.Item) -> Profile:
    """Return the profile of the lab that a test asks for."""
    return "calm" if item.get_closest_marker("quick") is None else "quick"


def needs_tools(item: pytest.Item) -> bool:
    """Tell whether a test may need other projects' programs, such as Prometheus or Maven."""
    return any(item.get_closest_marker(name) is not None for name in ("e2e", "slow"))


def add_option(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--lane", choices=LANES, help="only the items of this lane")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over files without a test of the lane: to load them all costs more than most lanes' tests."""
    lane = config.getoption("--lane")
    return (
        True if lane is not None and collection_path.suffix == ".py" and not _may_have(lane, collection_path) else None
    )


def _may_have(lane: str, file: Path) -> bool:
    """Tell whether a file may have tests of a lane; the lane cpu loads all, and checks that (see below)."""
    return lane == "cpu" or ("mark.spark" if lane == "spark" else "mark.kafka") in file.read_text(encoding="utf-8")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the lane's items; those that share a lab follow each other, and those that need tools come last.

    Raises:
        pytest.UsageError: no lane would run an item, because its file does not name its marker.
    """
    lane = config.getoption("--lane")
    if lane is not None:
        missed = sorted({str(item.path) for item in items if not _may_have(lane_of(item), item.path)})
        if missed:
            raise pytest.UsageError(f"say pytest.mark.kafka and pytest.mark.spark in the files themselves: {missed}")
        others = [item for item in items if lane_of(item) != lane]
        items[:] = [item for item in items if lane_of(item) == lane]
        config.hook.pytest_deselected(items=others)
    items.sort(key=lambda item: (profile_of(item) == "quick", needs_tools(item)))  # the sort is stable


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outside of all timeouts
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Wait for the tools before the first item that may need them."""
    file = os.environ.get(TOOLS)
    if file is not None and needs_tools(item):
        os.environ["PATH"] = _path_in(Path(file))
        del os.environ[TOOLS]
    return (yield)


def _path_in(file: Path) -> str:
    for _ in range(int(TOOLS_S)):
        if file.exists():
            return file.read_text().strip()
        time.sleep(1)  # another process writes it: there is no event to wait for
    raise pytest.UsageError(f"{file} is not there after {TOOLS_S:g} s: see what .ci/tools printed")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Let a lane pass that has nothing to do in a target."""
    if session.config.getoption("--lane") is not None and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK

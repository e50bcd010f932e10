"""A pytest plugin: what each item costs in CPU-seconds, the dearest ones of a session, and what an item may cost.

An item costs what this process and its reaped children use while it runs, forked ones (tests.support.forks) included;
fixtures that items share count by themselves. All figures are CPU-seconds of the machine that budgets are written for
(docs/testing.md): a loop at the start says how much quicker or slower this machine is.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support import forks
from tests.support.calibration import scale

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

MOST_S: Final = 5.0
"""What an item of the unit tests may cost, unless the marker ``dear`` says why it is worth more."""
BUSY: Final = 3.0
"""How much dearer a busy machine may make an item before it fails; what is above MOST_S is printed as such."""
DEAREST: Final = 10
_SPENT: Final = "cpu_s"
_LEFT_OUT: Final = "left_out"


class Costs:
    """What this process spends, and what all processes of the session report.

    Attributes:
        scale: How many CPU-seconds of the budgets' machine one of this machine is worth.
        total: What was reported, by item and by shared fixture.
    """

    def __init__(self) -> None:
        self.scale = scale()
        self.total: dict[str, float] = {}
        self._began_s = self._shared_s = 0.0
        self._fixtures: dict[str, float] = {}
        self._left_out: dict[str, str] = {}

    def item_s(self) -> float:
        """Return what the present item has cost so far, without what was spent on shared fixtures."""
        return self.scale * (cpu_s() - self._began_s - self._shared_s)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None]:
        """Begin to count: anew where an item is run again."""
        self._began_s, self._shared_s = cpu_s(), 0.0
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Count what a shared fixture costs by itself."""
        began, before = cpu_s(), self._shared_s
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                spent = cpu_s() - began - (self._shared_s - before)
                self._shared_s += spent
                name = f"fixture {fixturedef.argname}, {fixturedef.baseid or 'of all'}"
                self._fixtures[name] = self._fixtures.get(name, 0.0) + self.scale * spent

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report what an item has cost, and fail a unit test that costs too much."""
        report = yield
        if report.when == "teardown":
            spent_s = self.item_s()
            if report.passed and is_unit(item) and item.get_closest_marker("dear") is None and spent_s > MOST_S:
                # What shares this machine's caches makes all of it slower: an item is only too dear if it is by far.
                slower = min(1.0, scale(rounds=10) / self.scale)
                if (spent_s := slower * spent_s) > BUSY * MOST_S:
                    report.outcome = "failed"
                    report.longrepr = (
                        f"{item.nodeid} costs {spent_s:.1f} CPU-s; a unit test may cost {MOST_S:g}, "
                        'or says why it is worth more: @pytest.mark.dear("why"), see docs/testing.md'
                    )
            report.user_properties.append((_SPENT, {item.nodeid: spent_s} | self._fixtures))
            self._fixtures.clear()
        return report

    @pytest.hookimpl(trylast=True)  # after an interrupted session's fixtures, whose processes it would end
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Let the session's time hold what it forked has spent; one of several workers says what it left out."""
        forks.stop()
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[_LEFT_OUT] = self._left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker left out."""
        self._left_out |= getattr(node, "workeroutput", {}).get(_LEFT_OUT, {})

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember which tests are left out because they are dear, and why they are."""
        dear = [(item, mark) for item in items if (mark := item.get_closest_marker("dear")) is not None]
        self._left_out |= {item.nodeid.partition("[")[0]: mark.args[0] for item, mark in dear if is_unit(item)}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Sum what items cost."""
        for name, value in report.user_properties:
            if name == _SPENT and report.when == "teardown" and isinstance(value, dict):
                for what, spent in value.items():
                    self.total[what] = self.total.get(what, 0.0) + spent

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Print what cost most, and what was left out because it would have."""
        if "not dear" in config.option.markexpr:
            terminalreporter.section(f"{len(self._left_out)} tests are dear, and left out")
            for name, why in self._left_out.items():
                terminalreporter.write_line(f"{name}: {why}")
        if not self.total:
            return
        spent_s = sum(self.total.values())
        terminalreporter.section(f"the dearest of {spent_s:.0f} CPU-s (one of this machine is worth {self.scale:.2f})")
        for name in sorted(self.total, key=self.total.__getitem__, reverse=True)[:DEAREST]:
            terminalreporter.write_line(f"{self.total[name]:7.1f} CPU-s  {name}")


def cpu_s() -> float:
    """Return the CPU-seconds of this process and of those that have ended, which it started or has forked."""
    return sum(os.times()[:4]) + forks.spent_s()


def is_unit(item: pytest.Item) -> bool:
    """Tell whether an item is a unit test of ``make test``: needs no brokers and no Spark."""
    return not any(item.get_closest_marker(name) for name in ("kafka", "spark", "slow", "e2e"))

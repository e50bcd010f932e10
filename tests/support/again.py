"""A pytest plugin: a test that was only late, while the machine is known to have stalled, is run again once.

See tests.support.stalls for what counts as late and as evidence. What was run again is printed at the end, with why.
Below a failure stands what processes wrote that crashed meanwhile.
"""

from __future__ import annotations

import os
import time
from typing import Final

import pytest
from _pytest.runner import runtestprotocol

from tests.support import forks, labs, stalls

FAILED: Final = pytest.StashKey[list[BaseException]]()
AGAIN: Final = pytest.StashKey[list[str]]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Watch whether this process gets to run."""
    session.config.stash[AGAIN] = []
    stalls.witnesses.start()
    forks.begins_under = forks.of_python(os.environ)


def pytest_sessionfinish() -> None:
    """Stop watching."""
    stalls.witnesses.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Remember what a test failed for; the reports do not tell."""
    if call.excinfo is not None:
        item.stash.setdefault(FAILED, []).append(call.excinfo.value)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test, and once more if that is warranted, in a fresh lab."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    item.stash[FAILED], began = [], time.time()
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    failed = item.stash[FAILED]
    if failed and stalls.only_late(failed) and (seen := stalls.evidence(began)):
        told = f"{item.nodeid} failed and was run again: {failed[0]!r}"
        item.config.stash[AGAIN] += [told[:500], *(f"    {line}" for line in seen)]
        labs.discard()
        item._initrequest()  # type: ignore[attr-defined]  # as every plugin does that runs a test again
        for fixture in (one for found in item._fixtureinfo.name2fixturedefs.values() for one in found):  # type: ignore[attr-defined]
            if fixture.cached_result is not None and fixture.cached_result[2] is not None:
                fixture.finish(item._request)  # type: ignore[attr-defined]  # else it is late for all that follow, too
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    crashes = stalls.witnesses.crashes(began)
    for report in reports:
        if report.failed and crashes:
            report.sections.append(("crashed meanwhile", "\n".join(crashes)))
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was run again, and on what evidence."""
    if lines := terminalreporter.config.stash[AGAIN]:
        terminalreporter.section("run again, for the machine stalled")
        for line in lines:
            terminalreporter.write_line(line)

"""Fixtures that several rooms' tests share, and the rules of a session: what is run again, and that nothing is skipped.

Tests on brokers (marker ``kafka``) share three of them (fixture ``lab``). Where a broker has to be expelled within
seconds the test or its file says ``pytest.mark.quick``; all others get the calm profile, in which a machine that
stalls for some seconds changes nothing.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
import structlog

from canary.footprint import keep_quiet
from canary.lab.state import free_ports
from tests.support import affected, again, costs, labs, lanes, seeds
from tests.support.lanes import profile_of
from tests.support.postgres import server as postgres_server

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from canary.drills.rig.postgres import Postgres
    from canary.lab import Lab

# Python keeps what it has compiled: without that, each process that tests start compiles the libraries for seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tracebacks as the canary itself writes them: without the local variables, whose pictures cost seconds.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that say what property tests try, and the one of ``make test-all``."""
    parser.addoption("--long", action="store_true", help="the long form of tests that have one")
    lanes.add_option(parser)
    affected.add_option(parser)
    group = parser.getgroup("cases drawn at random")
    group.addoption("--seed", type=int, help="repeat the cases of a session that printed this seed")
    group.addoption("--explore", type=float, default=1, metavar="N", help="try N times as many cases (default: 1)")


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads its option
def pytest_configure(config: pytest.Config) -> None:
    """Choose the session's seed, and let what was late on a machine that stalled be run again."""
    seeds.begin(config.getoption("--seed"), config.getoption("--explore"))
    config.option.seed = seeds.SESSION.seed  # the processes of one session share it
    config.option.hypothesis_seed = str(seeds.SESSION.seed)
    for plugin in (again, costs.Costs(), lanes, affected.Affected(config)):
        config.pluginmanager.register(plugin)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out items that have a long form alone."""
    out = [] if config.getoption("--long") else [one for one in items if one.get_closest_marker("long") is not None]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [one for one in items if one not in out]


def pytest_collection_finish() -> None:
    """Do not look for garbage in all that was loaded: a tenth of what tests cost."""
    keep_quiet()


def pytest_report_header() -> str:
    """Say how this session's cases are repeated."""
    return f"cases drawn at random: repeat them with pytest {seeds.SESSION.options}"


def pytest_runtest_setup() -> None:
    """Forget the case of the test before."""
    seeds.SESSION.case = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say below a failure how it is repeated."""
    report = yield
    if report.failed:
        case = "" if seeds.SESSION.case is None else f"; the case that failed has the seed {seeds.SESSION.case}"
        report.sections.append(("cases drawn at random", f"pytest {seeds.SESSION.options} {report.nodeid}{case}"))
    return report


@pytest.fixture(scope="session")
def _labs() -> Iterator[None]:
    """Stop the last lab with the session."""
    yield
    labs.discard()


@pytest.fixture
def lab(_labs: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three real brokers, all of them running, with no topic but Kafka's own; before the test and after it."""
    running = labs.shared(profile_of(request.node), lambda: tmp_path_factory.mktemp("lab"))
    running.mend()
    yield running
    from canary.drills.rig.performance import clear  # noqa: PLC0415  # it loads Arrow

    clear(running)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL server, of which each test takes a database of its own."""
    with postgres_server() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/deep/store.db"
    url: str = request.getfixturevalue("postgres").database()
    return url


@pytest.fixture
def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens, below the ephemeral ones."""
    (port,) = free_ports(1)
    return port


@pytest.fixture(scope="session")
def long(pytestconfig: pytest.Config) -> bool:
    """Whether the long form of a test is asked for."""
    return bool(pytestconfig.getoption("--long"))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a continuous build in which a test was skipped: what was not run has not passed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # switched off: nothing counts
        return
    skipped = reporter.stats.get("skipped", [])
    if (
        skipped
        and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        and os.environ.get("CI") == "true"
    ):
        reporter.write_line(f"CI=true and {len(skipped)} skipped: a skipped test fails the run", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

"""Fixtures that several rooms' tests share, and the rule that a continuous build skips nothing."""

import os
from collections.abc import Iterator

import pytest
import structlog

from canary.lab import Lab
from canary.lab.state import free_ports

# Tracebacks as the canary itself writes them: without the local variables, whose pictures cost up to 15 s each.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three real brokers, shared by a module's tests; whoever breaks one mends it again (see whole_lab)."""
    with Lab(
        tmp_path_factory.mktemp("lab"),
        brokers=3,
        broker_properties={"min.insync.replicas": 2},
        die_with_parent=True,
    ) as running:
        yield running


@pytest.fixture
def whole_lab(lab: Lab) -> Iterator[Lab]:
    """The module's lab with every broker running, before the test and after it."""
    mend(lab)
    yield lab
    mend(lab)


def mend(lab: Lab) -> None:
    """Resume and start whatever a test left paused or dead."""
    for node in lab.status():
        if node.state == "paused":
            lab.resume(node.node)
        elif node.state == "stopped":
            lab.restart(node.node)
    lab.wait_ready()


@pytest.fixture
def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens, below the ephemeral ones."""
    (port,) = free_ports(1)
    return port


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a continuous build in which a test was skipped: what was not run has not passed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # switched off: nothing counts
        return
    skipped = reporter.stats.get("skipped", [])
    if skipped and exitstatus == pytest.ExitCode.OK and os.environ.get("CI") == "true":
        reporter.write_line(f"CI=true and {len(skipped)} skipped: a skipped test fails the run", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

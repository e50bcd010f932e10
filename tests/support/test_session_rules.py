"""The rules of a session: in which lane an item runs, what it may cost, and what it waits for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

CONFTEST = """
import os, threading, time
import pytest
from tests.support import calibration, costs, lanes

costs.MOST_S = calibration.LOOP_S  # one round of the loop is too much
lanes.TOOLS_S = 60

def pytest_addoption(parser):
    lanes.add_option(parser)

def pytest_configure(config):
    for plugin in (costs.Costs(), lanes):
        config.pluginmanager.register(plugin)

@pytest.fixture(scope="session")
def burnt():
    for _ in range(6):
        calibration._loop()

@pytest.fixture
def burning():
    for _ in range(6):
        calibration._loop()
"""
RULES = """
import os, pathlib
import pytest

def test_a_unit_test_that_costs_too_much(burning): pass

@pytest.mark.dear("to show it")
def test_a_dear_one(burning): pass

def test_with_a_fixture_of_the_session_that_costs_much(burnt): pass

@pytest.mark.e2e
def test_that_needs_tools(burning): assert os.environ["PATH"].startswith("/with/tools")

@pytest.mark.slow
def test_of_the_slow_ones(): pass

def test_that_needs_none(): pathlib.Path("path").write_text("/with/tools:" + os.environ["PATH"])
"""
BROKERS = """
import pytest

@pytest.mark.kafka
@pytest.mark.quick
def test_quick(): pass

@pytest.mark.kafka
def test_calm(): pass

@pytest.mark.kafka
@pytest.mark.spark
def test_both(): pass
"""
HIDDEN = """
from other import BROKERS

@BROKERS
def test_whose_lane_passes_over_its_file(): pass
"""


def pytest_here(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    plugins = ("xdist", "hypothesispytest", "schemathesis", "anyio", "asyncio", "cacheprovider")
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-rpE",
            *(word for name in plugins for word in ("-p", f"no:{name}")),
            *options,
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{folder}", "TESTS_TOOLS_PATH": str(folder / "path")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_lane_has_its_items_and_a_unit_test_that_costs_too_much_fails(tmp_path: Path) -> None:
    markers = "".join(f"  {name}\n" for name in ("kafka", "quick", "spark", "slow", "e2e", "dear(why)"))
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers =\n{markers}")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_rules.py").write_text(RULES)
    (tmp_path / "test_brokers.py").write_text(BROKERS)
    done = pytest_here(tmp_path, "--lane", "cpu")
    ended = {test: word for word, test in re.findall(r"^(PASSED|ERROR) \S+::(\w+)", done.stdout, re.MULTILINE)}
    assert ended == {
        "test_a_unit_test_that_costs_too_much": "ERROR",
        "test_a_dear_one": "PASSED",
        "test_with_a_fixture_of_the_session_that_costs_much": "PASSED",
        "test_that_needs_none": "PASSED",
        "test_that_needs_tools": "PASSED",
        "test_of_the_slow_ones": "PASSED",
    }, done.stdout + done.stderr
    assert 'says why it is worth more: @pytest.mark.dear("why")' in done.stdout
    dearest = [line.split("CPU-s  ")[1] for line in done.stdout.splitlines() if " CPU-s  " in line][:4]
    assert "fixture burnt, of all" in dearest
    assert not any("of_the_session" in one for one in dearest)

    (tmp_path / "test_hidden.py").write_text(HIDDEN)
    (tmp_path / "other.py").write_text("import pytest\nBROKERS = pytest.mark.kafka\n")
    refused = pytest_here(tmp_path, "--lane", "cpu", "--collect-only")
    assert refused.returncode == 4
    assert "test_hidden.py" in refused.stdout + refused.stderr
    (tmp_path / "test_hidden.py").unlink()
    nothing = pytest_here(tmp_path, "--lane", "spark", "-m", "slow")
    assert nothing.returncode == 0, "a target may have nothing for a lane"
    assert "collected 3 items / 3 deselected / 0 selected" in nothing.stdout, "it passed over the other file"

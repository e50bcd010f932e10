"""What is run again: a test on brokers that was late while the machine stalled, once, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from canary.lab.events import Event
from tests.support.stalls import Condition, explained

ROOT = Path(__file__).parents[2]
TESTS = """
import signal, subprocess, sys, time

import pytest
from tests.support import stalls
from tests.support.stalls import NotInTimeError, UnexplainedError

runs = {}
SLEEPS = "import time; time.sleep(0.5); print('.', flush=True); time.sleep(60)"

@pytest.fixture(scope="session", autouse=True)
def of_a_machine_that_never_stalls():
    stalls.witnesses._own.stop()

def fails_once(name, error, *, stall):
    runs[name] = runs.get(name, 0) + 1
    if stall:
        stalls.witnesses.note("did not get to run for 3.0 s")
    if runs[name] == 1:
        raise error

@pytest.mark.kafka
def test_late_and_stalled():
    fails_once("a", NotInTimeError("late"), stall=True)

@pytest.mark.kafka
def test_late_and_not_stalled():
    fails_once("b", NotInTimeError("late"), stall=False)

@pytest.mark.kafka
def test_false_and_stalled():
    fails_once("c", AssertionError("false"), stall=True)

@pytest.mark.kafka
def test_a_violation_and_stalled():
    fails_once("d", UnexplainedError("lost-write"), stall=True)

def test_no_brokers_and_stalled():
    fails_once("e", NotInTimeError("late"), stall=True)

def test_no_brokers_and_a_child_that_stalled():
    began = time.time()
    frozen = subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE)
    frozen.stdout.read(1)
    frozen.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    frozen.send_signal(signal.SIGCONT)
    while not stalls.evidence(began):
        time.sleep(0.05)
    frozen.kill()
    frozen.wait()
    fails_once("g", NotInTimeError("late"), stall=False)

@pytest.fixture(scope="session")
def late_once():
    fails_once("h", NotInTimeError("late"), stall=True)

def test_a_shared_fixture_that_was_late(late_once):
    pass

def test_false_behind_a_late_end():
    runs["i"] = runs.get("i", 0) + 1
    try:
        assert runs["i"] > 1
    finally:
        if runs["i"] == 1:
            fails_once("j", NotInTimeError("late"), stall=True)

def test_a_child_that_crashes():
    crashed = subprocess.run([sys.executable, "-c", "import ctypes; ctypes.string_at(0)"])
    assert crashed.returncode == 0

@pytest.mark.kafka
def test_late_twice():
    runs.pop("f", None)
    fails_once("f", NotInTimeError("late"), stall=True)
"""


@pytest.mark.dear("a session of pytest, and a process that stalls")
def test_only_lateness_with_evidence_is_run_again_and_both_are_printed(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = kafka\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.support.again", "-rfp", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    words = [line for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED"))]
    outcome = {line.split("::")[1].split(" ")[0]: line.split(" ")[0] for line in words}
    assert outcome == {
        "test_late_and_stalled": "PASSED",
        "test_late_and_not_stalled": "FAILED",
        "test_false_and_stalled": "FAILED",
        "test_a_violation_and_stalled": "FAILED",
        "test_no_brokers_and_stalled": "PASSED",
        "test_no_brokers_and_a_child_that_stalled": "PASSED",
        "test_a_child_that_crashes": "FAILED",
        "test_a_shared_fixture_that_was_late": "PASSED",
        "test_false_behind_a_late_end": "FAILED",
        "test_late_twice": "FAILED",
    }, done.stdout + done.stderr
    assert "test_late_and_stalled failed and was run again: NotInTimeError('late')" in done.stdout
    assert "did not get to run for 3.0 s" in done.stdout
    assert done.stdout.count("was run again") == 5
    assert "crashed meanwhile" in done.stdout
    assert "in string_at" in done.stdout, "where the child was"


AT = 1795334400.0


def said(kind: str, partition: int | None = 0) -> Condition:
    return Condition(kind, "t", partition, AT)


def isr(*brokers: int, partition: int = 0) -> Event:
    return Event(AT, "isr", 1, "t", partition, frozenset(brokers))


def test_a_condition_is_explained_by_the_event_that_made_it_true_and_a_loss_by_none() -> None:
    assert explained(said("isr-of-one"), [isr(1)])
    assert not explained(said("isr-of-one"), [isr(1, 2)])
    assert not explained(said("isr-of-one"), [isr(1, partition=1)])
    assert explained(said("under-min-isr"), [isr(1)])
    assert explained(said("unclean-election"), [Event(AT, "unclean", 1000, "t", 0)])
    assert not explained(said("unclean-election"), [Event(AT, "unclean", 1000, "t", 1)])
    dead = [Event(AT, "killed", 2), Event(AT, "fenced", 3)]
    assert explained(said("offline-partition"), [isr(1, 2, 3), *dead, Event(AT, "paused", 1)]), "the last one"
    assert explained(said("offline-partition"), [*dead, Event(AT, "started", 2), Event(AT, "killed", 1)]), "2 lags"
    back = [Event(AT, "unfenced", 3), isr(1, 3), Event(AT, "killed", 1)]
    assert not explained(said("offline-partition"), [isr(1, 2, 3), *dead, *back]), "3 has caught up"
    assert not explained(said("offline-partition"), [isr(1, 2, 3), *dead]), "1 leads"
    frozen = [Event(AT, "paused", 2), Event(AT, "resumed", 2), Event(AT, "killed", 1), Event(AT, "killed", 3)]
    assert not explained(said("offline-partition"), [isr(1, 2, 3), *frozen]), "2 was never expelled"
    assert not explained(said("isr-of-one"), [isr(1)], AT + 1), "a topic of that name, before the canary began"
    assert explained(said("unseen"), [Event(AT - 9, "fenced", 2)])
    before = [Event(AT - 20, "killed", 2), Event(AT - 9, "fenced", 2)]
    assert not explained(said("unseen"), before, AT - 15), "killed before the canary began, and fenced for it"
    assert not explained(said("unseen"), [Event(AT - 10, "killed", 2), Event(AT - 9, "fenced", 2)])
    assert not explained(said("unseen"), [Event(AT - 999, "fenced", 2)])
    assert not explained(said("unseen"), [Event(AT + 1, "fenced", 2)])
    everything = [isr(1), Event(AT - 9, "fenced", 2), Event(AT, "unclean", 1000, "t", 0), Event(AT - 9, "cut", 2)]
    for kind in ("lost-write", "duplicate", "poll-skip", "truncation", "phantom", "corrupt"):
        assert not explained(said(kind), everything), kind

"""What differs from run to run is asked for through a port alone: a simulation can replace every port."""

import ast

import pytest

from tests.structure.test_structure import modules

ROOMS = (
    "canary.anomalies",
    "canary.facts",
    "canary.kafka",
    "canary.metrics",
    "canary.probe",
    "canary.probing",
    "canary.runner",
    "canary.threads",
    "canary.watching",
    "canary.workloads",
    "storage.ledger",
    "storage.probe_log",
    "storage.store",
)
"""What a simulated canary consists of."""
FORBIDDEN = {
    "time": {"monotonic", "monotonic_ns", "time", "time_ns", "perf_counter", "sleep", "thread_time", "process_time"},
    "threading": {"Event", "Lock", "RLock", "Condition", "Semaphore", "Thread", "Timer"},
    "queue": {"SimpleQueue", "Queue"},
    "random": {"*"},
    "secrets": {"*"},
    "uuid": {"uuid1", "uuid4"},
    "os": {"urandom", "open", "read", "write", "fsync", "rename", "replace", "unlink", "listdir"},
    "concurrent.futures": {"wait", "ThreadPoolExecutor"},
    "confluent_kafka": {"Producer", "Consumer"},
    "confluent_kafka.admin": {"AdminClient"},
}
"""By module, what only a port may ask for."""
PORTS = {"canary.threads.system", "canary.kafka.opening", "storage.ledger.files"}
"""The ports: time, waiting, threads and randomness; Kafka clients; the disk."""


def calls(tree: ast.Module) -> list[tuple[str, str]]:
    """Return (module, name) of what a module takes of others, as ``module.name`` or by import."""
    called = {
        name.asname or name.name: name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
    }
    found = [
        (called[ast.unparse(node.value)], node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in called
    ]
    found += [
        (node.module or "", name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    ]
    return found


def trespassing(tree: ast.Module) -> list[tuple[str, str]]:
    """Return what a module asks for that only a port may."""
    return [one for one in calls(tree) if FORBIDDEN.get(one[0], set()) & {one[1], "*"}]


@pytest.mark.parametrize(
    "text", ["import time\ntime.monotonic()", "from time import sleep", "import random as dice\ndice.Random()"]
)
def test_trespassing_is_found(text: str) -> None:
    assert trespassing(ast.parse(text))


def test_only_ports_ask_for_what_differs_from_run_to_run() -> None:
    rooms = {name: tree for name, tree in modules().items() if name.startswith(ROOMS) and name not in PORTS}
    assert len(rooms) > 100
    assert {name: found for name, tree in rooms.items() if (found := trespassing(tree))} == {}


def test_no_question_is_asked_whose_answer_may_end_the_process() -> None:
    """See canary.kafka.membership."""
    asking = [
        name
        for name, tree in modules().items()
        if any(isinstance(node, ast.Attribute) and node.attr == "describe_cluster" for node in ast.walk(tree))
    ]
    assert asking == []

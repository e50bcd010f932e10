"""What each process loads: a package costs memory for as long as the process lives, and CPU at each start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Final

import httpx
import pytest

from canary.lab.state import free_ports
from tests.support.waiting import BUSY, until

NEVER: Final = frozenset({"pyspark", "pandas", "plotly", "grafana_foundation_sdk"})
ARROW: Final = frozenset({"pyarrow", "numpy", "fsspec"})
STORE: Final = frozenset({"sqlalchemy", "alembic"})
HTTP: Final = frozenset({"fastapi", "starlette", "uvicorn", "jinja2", "prometheus_client"})
CALLS: Final = frozenset({"httpx", "joserfc", "cryptography"})
KAFKA: Final = frozenset({"confluent_kafka"})
CLOCK: Final = frozenset({"apscheduler"})

NOT_LOADED: Final = {
    "up": NEVER | ARROW | STORE | HTTP | CALLS | KAFKA | CLOCK | {"rich"},
    "run": NEVER | {"kafka"} | HTTP | CALLS | CLOCK | {"rich", "pyarrow.dataset"},
    "serve": NEVER | ARROW | CALLS | KAFKA | CLOCK,
    "schedule": NEVER | ARROW | HTTP | CALLS | KAFKA | {"rich"},
}
"""What the processes of `canary up` may not have loaded when they have done their first work."""

REPORTS: Final = """
import atexit, json, os, sys
def report():
    if "-m" in sys.orig_argv and sys.argv[1:]:
        with open({folder!r} + "/" + sys.argv[1] + ".json", "w") as file:
            json.dump(sorted(sys.modules), file)
def reported(status, leave=os._exit):
    report()
    leave(status)
atexit.register(report)
os._exit = reported  # a process whose daemon threads are at work (canary.cli.__main__)
"""
"""Imported by each Python process at its start, so that it tells at its end what it had loaded."""


READY: Final = ("canary is up", "schedule_leads", "waiting")
"""What the log says when the API answers, the scheduler leads, and the runner asks a cluster that does not answer."""


@pytest.fixture(name="loaded", scope="module")
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Start everything beside a cluster that does not answer, stop it when all work, and return what each loaded."""
    folder = tmp_path_factory.mktemp("loaded")
    (folder / "sitecustomize.py").write_text(REPORTS.format(folder=str(folder)))
    port, nobody = free_ports(2)
    ours = {
        "PYTHONPATH": str(folder),
        "CANARY_API__PORT": str(port),
        "CANARY_CLUSTERS__0__NAME": "away",
        "CANARY_CLUSTERS__0__KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{nobody}",
    }
    log = folder / "log"
    with log.open("wb") as output:
        up = subprocess.Popen(
            [sys.executable, "-m", "canary.cli", "up"],
            cwd=folder,
            env={**{k: v for k, v in os.environ.items() if not k.startswith("CANARY_")}, **ours},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: all(word in log.read_text() for word in READY), 30, "everything at work")
        assert httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=20 * BUSY).status_code == 200
        assert httpx.get(f"http://127.0.0.1:{port}/", timeout=20 * BUSY).status_code == 200
        up.send_signal(signal.SIGTERM)
        assert up.wait(20 * BUSY) == 0, log.read_text()
    finally:
        up.terminate()  # ends the children, too
        up.wait(20 * BUSY)
    return {part: set(json.loads((folder / f"{part}.json").read_text())) for part in NOT_LOADED}


@pytest.mark.dear("starts each process")
@pytest.mark.parametrize("part", NOT_LOADED)
def test_a_process_at_work_has_loaded_nothing_that_its_work_does_not_need(
    loaded: dict[str, set[str]], part: str
) -> None:
    assert sorted(NOT_LOADED[part] & loaded[part]) == []
    assert "canary.cli" in loaded[part]


LITTLE: Final = {
    "import canary.cli": NOT_LOADED["up"] | {"structlog", "pydantic"},
    "import storage.store": NEVER | ARROW | {"alembic", "sqlalchemy.orm", "pydantic"},
    "import storage.ledger.codec as codec; codec.decode_facts(codec.encode_facts([]))": NEVER,
    "from contextlib import suppress; from canary.probe.identity import Identity; "
    "from storage.probe_log.errors import NothingThereError; from storage.probe_log.reading import ProbeLogReader\n"
    "with suppress(NothingThereError): ProbeLogReader('/nowhere').find(Identity(1, 1, 1, 1))": NEVER,
}
"""What may not have been loaded after some lines of Python: for --help, the store, the ledger, the probe log."""


@pytest.mark.dear("starts Python for each module")
@pytest.mark.parametrize("code", LITTLE)
def test_what_every_process_uses_loads_little(code: str) -> None:
    told = f"{code}\nimport sys; print(sorted({set(LITTLE[code])!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_arrow_still_finds_pandas_for_who_asks_for_a_frame() -> None:
    told = "import storage.ledger, pyarrow as pa; print(pa.table({'a': [1]}).to_pandas().a.sum())"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout == "1\n"

"""The canary as its users run it: a settings file, processes, HTTP. A drill looks at nothing of its inside."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from canary.lab.state import free_ports
from canary.settings.loading import PREFIX, RESERVED

_ANSWER_S = 30.0
_STORE_UP = "canary_api_store_up"


@cache
def _client() -> httpx.Client:
    """Return the client for all questions: each one that is made reads all certificates that this machine trusts.

    It keeps no connection, because the API that it asked before may have been killed.
    """
    return httpx.Client(timeout=_ANSWER_S, limits=httpx.Limits(max_keepalive_connections=0))


@dataclass
class Installation:
    """One canary: its directory, its settings, and its processes while they run.

    Attributes:
        directory: of everything that it writes; made if missing.
        clusters: the settings' ``clusters``.
        settings: further sections, which replace those made here.
        parts: the commands that run, a process each.
        environment: is added to that of the processes that are started from now on.
    """

    directory: Path
    clusters: list[dict[str, Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ("run", "serve")
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write the settings file."""
        (self.port,) = free_ports(1)
        self.base = f"http://127.0.0.1:{self.port}"
        self.config = self.directory / "canary.yaml"
        self.log = self.directory / "log"
        self.store = self.directory / "store.db"
        self.ledger = self.directory / "ledger"
        self.probe_log = self.directory / "probe-log"
        self.directory.mkdir(parents=True, exist_ok=True)
        document = {
            "clusters": self.clusters,
            "store": {"url": f"sqlite:///{self.store}"},
            "ledger": {"directory": str(self.ledger)},
            "probe_log": {"url": str(self.probe_log)},
            "runner": {"name": "drill", "segment_age": "5s"},
            "api": {"port": self.port},
            **self.settings,
        }
        self.config.write_text(json.dumps(document))

    def start(self) -> None:
        """Start every part: its settings are those of its file, whatever this process's environment says."""
        self.processes = [self.begun([part, "--config", str(self.config)], self._environment()) for part in self.parts]

    def answer(self, *arguments: str) -> str:
        """Return what ``canary ARGUMENTS`` prints with its settings."""
        command = [sys.executable, "-m", "canary.cli", *arguments, "--config", str(self.config)]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=self._environment()).stdout  # noqa: S603  # ourselves

    def _environment(self) -> dict[str, str]:
        others = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX) or name in RESERVED}
        others.pop("CANARY_CONFIG", None)
        return others | {"PYTHONFAULTHANDLER": "1"} | self.environment  # says where, should a client library crash

    def begun(self, arguments: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start ``canary ARGUMENTS`` in a session of its own, which writes to the log."""
        command = [sys.executable, "-m", "canary.cli", *arguments]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)  # noqa: S603  # ourselves

    def kill(self) -> None:
        """Kill -9 everything of it; fine when nothing runs."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self.processes:
            process.wait(60)

    def stop(self, timeout: float = 60.0) -> list[int]:
        """SIGTERM, and the exit statuses."""
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + timeout
        return [process.wait(max(deadline - time.monotonic(), 0.1)) for process in self.processes]

    def ended(self) -> str | None:
        """Return which part has ended by itself, and what it wrote last, or where it crashed; None while all run."""
        gone = next((process for process in self.processes if process.poll() is not None), None)
        if gone is None:
            return None
        said, status = self.output(), f"{gone.args!r} ended with status {gone.returncode}"
        _, crash, report = said.rpartition("Fatal Python error")
        if not crash:
            return f"{status}: {said[-3000:]}"
        what, _, stacks = report.partition("\n")  # its last line may be on its way
        return f"{status}: {crash}{what}\n{stacks[max(stacks.find('Current thread'), 0) :][:3000]}"

    def output(self) -> str:
        """Return all that its processes logged."""
        return self.log.read_text(errors="replace")

    def get(self, path: str, **params: object) -> httpx.Response:
        """Ask its API."""
        return _client().get(f"{self.base}{path}", params=params)  # type: ignore[arg-type]

    def samples(self, *wanted: str) -> list[Sample]:
        """Return the samples of one answer of /metrics; none where the store had no part in it.

        ``wanted``: beginnings of names; all others but that of the store itself are left out.
        """
        text = self.get("/metrics").text
        if wanted:  # parsing is most of what it costs to ask again and again
            text = "".join(line for line in text.splitlines(keepends=True) if line.startswith((*wanted, _STORE_UP)))
        found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return found if any(one.name == _STORE_UP and one.value for one in found) else []

    def items(self, path: str, **params: object) -> Iterator[dict[str, Any]]:
        """Yield what a list of the REST API holds, through all its pages."""
        cursor: dict[str, object] = {}
        while True:
            page = self.get(f"/api/v1/{path}", limit=500, **params, **cursor).raise_for_status().json()
            yield from page["items"]
            if page["next_cursor"] is None:
                return
            cursor = {"cursor": page["next_cursor"]}

    def violations(self, *kinds: str) -> list[dict[str, Any]]:
        """Return every violation (of some kinds), in every state."""
        return [one for one in self.items("violations") if not kinds or one["kind"] in kinds]

    def runs_of(self, violation: Mapping[str, Any]) -> list[tuple[int, int, list[int]]]:
        """Return the records of a violation of the REST API: offset, how many from there on, the first identity."""
        single = [violation["offset"], 1, list((violation["identity"] or {}).values())]
        evidence = self.get(f"/api/v1/violations/{violation['id']}").json()["evidence"]
        return [(offset, size, who) for offset, size, who in evidence.get("records", [single])]

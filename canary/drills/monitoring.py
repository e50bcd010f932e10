"""What watches canaries from outside: a receiver of heartbeats, and a Prometheus where this machine has one."""

import contextlib
import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import httpx

from canary.drills.rig.installation import Installation
from canary.lab.state import free_ports

HOLD_S: Final = 10
"""How long an expression is true until its alert fires here, in place of the shipped 2 minutes."""
_LOOKS: Final = {"scrape_interval": "5s", "evaluation_interval": "5s"}


@contextlib.contextmanager
def heartbeat() -> Iterator[tuple[str, list[float]]]:
    """Yield the address of a receiver, and the times at which it is called (s since the epoch)."""
    calls: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            calls.append(time.time())
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", calls
        finally:
            server.shutdown()


@contextlib.contextmanager
def prometheus(directory: Path, *canaries: Installation) -> Iterator[Callable[[str], set[str]] | None]:
    """Run a Prometheus that scrapes these canaries, with the rules that `canary alert rules` prints for each.

    Yields a function of a query, which returns the clusters of its result; None: PATH has no ``prometheus``.
    """
    program = shutil.which("prometheus")
    if program is None:
        yield None
        return
    (port,) = free_ports(1)
    directory.mkdir()
    for number, one in enumerate(canaries):
        rules = re.sub(r"(?m)^( +for:) .*", rf"\1 {HOLD_S}s", one.answer("alert", "rules"))
        (directory / f"{number}.rules").write_text(rules)
    scraped = {"job_name": "canaries", "static_configs": [{"targets": [f"127.0.0.1:{one.port}" for one in canaries]}]}
    settings = {"global": _LOOKS, "rule_files": ["*.rules"], "scrape_configs": [scraped]}
    (directory / "prometheus.yml").write_text(json.dumps(settings))
    places = (f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data")
    command = [program, *places, f"--web.listen-address=127.0.0.1:{port}"]
    with (directory / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:  # noqa: S603  # by PATH
        try:
            yield lambda query: _clusters(f"http://127.0.0.1:{port}/api/v1/query", query)
        finally:
            process.kill()


def _clusters(address: str, query: str) -> set[str]:
    found = httpx.get(address, params={"query": query}).raise_for_status().json()["data"]["result"]
    return {one["metric"]["cluster"] for one in found}

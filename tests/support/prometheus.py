"""Prometheus and Alertmanager as Debian ships them (or $PROMETHEUS and $ALERTMANAGER), on ports of loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import yaml

from canary.lab.state import free_ports
from tests.support.http_client import HTTP, PATIENCE_S
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def program(variable: str, name: str) -> str:
    """Return the path of a program: the variable's value, or where PATH has it."""
    found = os.environ.get(variable) or shutil.which(name)
    assert found, f"{name} is missing: install the package {name}, or set {variable}"
    return found


@contextmanager
def running(*command: str, log: Path) -> Iterator[None]:
    """Run a command, and end it."""
    with log.open("ab") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@contextmanager
def prometheus(directory: Path, config: dict[str, Any], *canary_ports: int) -> Iterator[str]:
    """Run Prometheus, which scrapes canaries' APIs; yield its address.

    Args:
        directory: for its files and its log.
        config: of Prometheus, whose first targets are replaced by the canaries.
        *canary_ports: of the APIs.
    """
    (port,) = free_ports(1)
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{one}" for one in canary_ports]
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"http://127.0.0.1:{port}"
    with running(
        program("PROMETHEUS", "prometheus"),
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/prometheus",
        f"--web.listen-address=127.0.0.1:{port}",
        log=directory / "prometheus.log",
    ):
        until_ready(address, directory)
        yield address


def until_ready(address: str, directory: Path) -> None:
    """Wait until a server that has just been started answers; its log is in ``directory``."""
    until(partial(_ready, address), 60, f"{address} is ready; see the logs in {directory}")


def _ready(address: str) -> bool:
    return HTTP.get(f"{address}/-/ready", timeout=2).status_code == 200

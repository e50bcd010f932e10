"""``canary lab up|down|status|fetch``: the embedded brokers alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it
from canary.errors import UserError

if TYPE_CHECKING:
    from canary.lab import Lab

DirectoryOption = Annotated[Path | None, typer.Option("--directory", "-d", help="Of the lab; default: lab.directory.")]
VersionOption = Annotated[str | None, typer.Option("--kafka", help="Kafka's version; default: lab.version.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A property of every broker; repeatable.")
]
ControllerSetOption = Annotated[
    list[str] | None, typer.Option("--set-controller", metavar="KEY=VALUE", help="One of the controller; repeatable.")
]


def up(
    directory: DirectoryOption = None,
    brokers: Annotated[int | None, typer.Option(min=1, max=9, help="How many; default: lab.brokers.")] = None,
    kafka: VersionOption = None,
    heap: Annotated[str | None, typer.Option(help="Of each process, as in -Xmx; default: lab.heap.")] = None,
    settings: SetOption = None,
    controller_settings: ControllerSetOption = None,
    *,
    json: JsonOption = False,
) -> None:
    """Start the brokers and leave them running. A lab that was there before keeps its data.

    Example: canary lab up --brokers 3 --set min.insync.replicas=2
    """
    from canary.cli import progress  # noqa: PLC0415
    from canary.lab import Lab, NodeProperties  # noqa: PLC0415

    defaults = session.load_settings().lab
    lab = Lab(
        directory or defaults.directory,
        brokers=brokers or defaults.brokers,
        version=kafka or defaults.version,
        heap=heap or defaults.heap,
        properties=NodeProperties(_properties(settings or []), _properties(controller_settings or [])),
    )
    with progress.shown() as report:
        lab.start(report)
    _report(lab, json=json)


def down(directory: DirectoryOption = None, *, json: JsonOption = False) -> None:
    """Stop the brokers and keep their data. Fine when they do not run.

    Example: canary lab down
    """
    lab = _attached(directory)
    lab.stop()
    _report(lab, json=json)


def status(directory: DirectoryOption = None, *, json: JsonOption = False) -> None:
    """Show what runs. Exit status 3 unless every process does.

    Example: canary lab status --json
    """
    lab = _attached(directory)
    _report(lab, json=json)
    if any(node.state != "running" for node in lab.status()):
        raise typer.Exit(3)


def fetch(kafka: VersionOption = None, *, json: JsonOption = False) -> None:
    """Fetch the brokers' jars, so that `up` needs no network.

    Example: canary lab fetch --kafka 4.1.0
    """
    from canary.cli import progress  # noqa: PLC0415
    from canary.lab.jars import cache  # noqa: PLC0415

    version = kafka or session.load_settings().lab.version
    with progress.shown() as report:
        found = cache.fetch(version, report)
    session.report({"version": version, "directory": str(found)}, str(found), json=json)


def _attached(directory: Path | None) -> Lab:
    from canary.lab import Lab  # noqa: PLC0415

    return Lab.attach(directory or session.load_settings().lab.directory)


def _properties(pairs: list[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{pair!r} is no property; write it as KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def _report(lab: Lab, *, json: bool) -> None:
    nodes = lab.status()
    document = {
        "directory": str(lab.directory),
        "version": lab.version,
        "cluster_id": lab.cluster_id,
        "bootstrap_servers": lab.bootstrap,
        "nodes": [{"id": one.pop("node"), **one} for one in map(dataclasses.asdict, nodes)],
    }
    lines = [f"Kafka {lab.version} in {lab.directory}"]
    for node in nodes:
        place = f"127.0.0.1:{node.port}"
        memory = f"{node.resident_bytes >> 20} MiB" if node.pid is not None else ""
        lines.append(f"  {node.role:<10} {node.node:>4}  {node.state:<8} {place:<16} pid {node.pid or '-':<8} {memory}")
    if any(node.state == "running" for node in nodes):
        lines.append(f"bootstrap.servers={lab.bootstrap}")
    session.report(document, "\n".join(lines), json=json)

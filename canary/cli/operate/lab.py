"""``canary lab ...``: the embedded brokers alone, and what can be done to them, also to those of ``canary up``."""

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
    from canary.lab.proxy.faults import Party

DirectoryOption = Annotated[Path | None, typer.Option("--directory", "-d", help="Of the lab; default: lab.directory.")]
VersionOption = Annotated[str | None, typer.Option("--kafka", help="Kafka's version; default: lab.version.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A property of every broker; repeatable.")
]
ControllerSetOption = Annotated[
    list[str] | None, typer.Option("--set-controller", metavar="KEY=VALUE", help="One of the controller; repeatable.")
]
NodesArgument = Annotated[list[str], typer.Argument(metavar="NODE...", help="Ids of brokers, or `controller`.")]
BrokerArgument = Annotated[int, typer.Argument(metavar="BROKER", help="Its id.")]


def up(  # noqa: PLR0913  # options, each given by name
    directory: DirectoryOption = None,
    brokers: Annotated[int | None, typer.Option(min=1, max=9, help="How many; default: lab.brokers.")] = None,
    controllers: Annotated[int, typer.Option(min=1, max=5, help="How many; of three, one may fail.")] = 1,
    kafka: VersionOption = None,
    heap: Annotated[str | None, typer.Option(help="Of each process, as in -Xmx; default: lab.heap.")] = None,
    settings: SetOption = None,
    controller_settings: ControllerSetOption = None,
    *,
    proxied: Annotated[bool, typer.Option("--proxied", help="With a network that `partition` can cut.")] = False,
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
        controllers=controllers,
        proxied=proxied,
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


def kill(nodes: NodesArgument, directory: DirectoryOption = None, *, json: JsonOption = False) -> None:
    """Kill processes (-9). Fine when they are dead.

    Example: canary lab kill 1 controller
    """
    _each(nodes, directory, "kill", json=json)


def pause(nodes: NodesArgument, directory: DirectoryOption = None, *, json: JsonOption = False) -> None:
    """Freeze processes: connections stay open, and nothing answers on them.

    Example: canary lab pause 2
    """
    _each(nodes, directory, "pause", json=json)


def resume(nodes: NodesArgument, directory: DirectoryOption = None, *, json: JsonOption = False) -> None:
    """Let frozen processes go on.

    Example: canary lab resume 2
    """
    _each(nodes, directory, "resume", json=json)


def restart(nodes: NodesArgument, directory: DirectoryOption = None, *, json: JsonOption = False) -> None:
    """Stop nodes that run and start them, one after the other, each until it is back in the cluster.

    Example: canary lab restart 1 2 3
    """
    _each(nodes, directory, "restart", json=json)


def cut(
    broker: BrokerArgument,
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION")],
    count: Annotated[int | None, typer.Option("--bytes", min=1, help="So many bytes of its end.")] = None,
    to_offset: Annotated[int | None, typer.Option(min=0, help="This offset and all behind it.")] = None,
    directory: DirectoryOption = None,
    *,
    json: JsonOption = False,
) -> None:
    """Cut the end off the log of a killed broker, as a crash does to what was never synced.

    Example: canary lab cut 1 probes 0 --bytes 500
    """
    done = _attached(directory).truncate(broker, topic, partition, bytes=count, to_offset=to_offset)
    text = f"{topic}-{partition} on broker {broker} ended at {done.before}, and ends at {done.after} now"
    session.report(dataclasses.asdict(done), f"{text}: {done.bytes_removed} bytes are gone", json=json)


def wipe(broker: BrokerArgument, directory: DirectoryOption = None, *, json: JsonOption = False) -> None:
    """Empty the disk of a killed broker or controller: it comes back with its id, the cluster's id and no data.

    Example: canary lab wipe 3
    """
    lab = _attached(directory)
    lab.wipe(broker)
    _report(lab, json=json)


def partition(
    parties: Annotated[list[str] | None, typer.Argument(metavar="A B", help="A node each, `client` or `any`.")] = None,
    directory: DirectoryOption = None,
    *,
    one_way: Annotated[bool, typer.Option("--one-way", help="Nothing goes from A to B; back it does.")] = False,
    heal: Annotated[bool, typer.Option("--heal", help="Let everything pass again.")] = False,
    json: JsonOption = False,
) -> None:
    """Cut two nodes of a lab with a proxy off from each other, besides those that are. Shows what is cut, or slow.

    Example: canary lab partition 1 2
    """
    from canary.lab import Cut  # noqa: PLC0415
    from canary.lab.proxy.faults import encoded  # noqa: PLC0415

    lab = _attached(directory)
    if heal:
        lab.heal()
    if parties:
        if len(parties) != 2:
            raise UserError("name two parties that are cut off from each other, such as: canary lab partition 1 2")
        source, target = (_party(lab, name) for name in parties)
        lab.nemesis(*lab.faults(), Cut(source, target, both=not one_way))
    found = lab.faults()
    text = "\n".join(map(str, found)) or "everything passes"
    session.report({"faults": [encoded(one) for one in found]}, text, json=json)


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


def _each(names: list[str], directory: Path | None, action: str, *, json: bool) -> None:
    """Do to each node what the method of Lab called ``action`` does, and report how all of them are."""
    lab = _attached(directory)
    for node in [_node(lab, name) for name in names]:
        getattr(lab, action)(node)
    _report(lab, json=json)


def _node(lab: Lab, name: str) -> int:
    """Return a node's id; UserError where it has none."""
    from canary.lab import CONTROLLER  # noqa: PLC0415

    known = {"controller": CONTROLLER} | {str(one.node): one.node for one in lab.status()}
    if name not in known:
        raise UserError(f"{name!r} is no node of the lab; nodes are {', '.join(known)}")
    return known[name]


def _party(lab: Lab, name: str) -> Party:
    """Return a node's id, or the word for those that are none."""
    return name if name in {"client", "any"} else _node(lab, name)  # type: ignore[return-value]  # one of the two


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

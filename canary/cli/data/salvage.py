"""``canary salvage``: what a former leader's log directory holds and the cluster does not; and writing it again."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path  # typer reads it
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it
from canary.errors import UserError

if TYPE_CHECKING:
    from canary.salvage.cluster import ClusterView
    from canary.salvage.replaying import Part, Replayed
    from canary.salvage.salvaging import Wanted
    from canary.settings import ClusterSettings

_COLUMNS: Final = ("records", "held", "expired", "committed", "aborted", "undecided", "salvaged", "collisions")
_NOT_VERIFIED: Final = ("missing", "changed", "unverified")
_UNREACHABLE: Final = 3
_WIDTH: Final = 200
"""Of tables in files and pipes, where nothing is to be cut off."""


def salvage(  # noqa: PLR0913  # the options of a command
    context: typer.Context,
    *,
    log_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A broker's log.dir, or a copy of it, or of one TOPIC-PARTITION folder."),
    ] = None,
    epochs_from: Annotated[
        str | None, typer.Option(metavar="CLUSTER", help="The cluster of the settings that the broker belonged to.")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(metavar="TOPIC", help="Only this topic (repeat).")] = None,
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Only this partition (repeat).")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="New directory for the records.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; print the same counts.")] = False,
    include_undecided: Annotated[
        bool, typer.Option("--include-undecided", help="Also records of transactions whose end is not in the log.")
    ] = False,
    include_expired: Annotated[
        bool, typer.Option("--include-expired", help="Also records below the start of the cluster's log.")
    ] = False,
    any_topic_id: Annotated[
        bool, typer.Option("--any-topic-id", help="All of a topic that was deleted, or made again since.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare what both have, record by record: finds gaps in the middle.")
    ] = False,
    collisions: Annotated[
        bool, typer.Option("--collisions/--no-collisions", help="Look for newer records of the same keys.")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Write what a former leader's log directory holds, and the cluster no longer does, to Parquet files.

    The directory is only read; its broker must not run. Files hold keys and values, and only you may read them. Exit
    status 0, 2 for bad input, 3 if the cluster does not answer (for a partition: the others are done).

    Example: canary salvage --log-dir /keep/data --epochs-from prod-eu --topic orders --dry-run
    """
    if context.invoked_subcommand is not None:
        return
    if log_dir is None or epochs_from is None:
        raise UserError("give --log-dir DIR and --epochs-from CLUSTER")
    if (out is None) != dry_run:
        raise UserError("give either --out DIR or --dry-run")
    from canary.salvage.salvaging import Wanted  # noqa: PLC0415  # Arrow and the Kafka clients take their time

    wanted = Wanted(include_undecided, include_expired, collisions, verify)
    chosen = (topic or (), partition or ())
    document = _salvaged((log_dir, *chosen), epochs_from, wanted, out, any_topic_id=any_topic_id)
    if json:
        session.report(document, "", json=True)
    else:
        _print(document, out)
    if document["unknown"]:
        raise typer.Exit(_UNREACHABLE)


def _salvaged(
    source: tuple[Path, Collection[str], Collection[int]],
    name: str,
    wanted: Wanted,
    out: Path | None,
    *,
    any_topic_id: bool,
) -> dict[str, Any]:
    """Return the manifest; ``source``: a log directory, topics, partitions; ``name``: of the cluster."""
    from canary.cli import progress  # noqa: PLC0415
    from canary.salvage import run  # noqa: PLC0415
    from canary.salvage.directory import opened  # noqa: PLC0415
    from canary.salvage.salvaged import made  # noqa: PLC0415
    from canary.threads.ending import ended_by_sigterm  # noqa: PLC0415

    settings = session.load_settings()
    cluster = session.with_address(settings, session.cluster_named(settings, name))
    directory = opened(*source)
    if out is not None:
        directory.refuse_to_hold(out)
    to = None if out is None else made(out)
    with ended_by_sigterm(), _asking(cluster) as view, progress.shown() as show:
        return run.salvage(view, directory, wanted, to, any_topic_id=any_topic_id, show=show)


def replay(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What `canary salvage --out` wrote.")],
    *,
    to_topic: Annotated[str, typer.Option(metavar="TOPIC", help="A topic of its own, with as many partitions.")],
    topic: Annotated[str | None, typer.Option(help="Which topic's records, if there are several.")] = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Default: where the epochs came from.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the topic, if it is missing.")] = False,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, help="Of the topic that is made; default: topic.replication_factor.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write salvaged records to a topic of its own: the same partitions, order, timestamps, keys, values and headers.

    A run that was stopped is gone on with by the same command. At the end everything is read back and compared. Exit
    status 0: none missing, none added, in order; 1: it is not; 2 bad input; 3 the cluster does not answer.

    Example: canary salvage replay /keep/salvaged --to-topic orders.salvaged --create
    """
    from canary.cli import progress  # noqa: PLC0415
    from canary.kafka import opening  # noqa: PLC0415
    from canary.kafka.quiet import calm, quiet_logger  # noqa: PLC0415
    from canary.salvage import replaying  # noqa: PLC0415
    from canary.salvage.salvaged import manifest_of  # noqa: PLC0415
    from canary.settings import consumer_config, producer_config  # noqa: PLC0415
    from canary.threads.ending import ended_by_sigterm  # noqa: PLC0415

    manifest = manifest_of(directory)
    source = _source(manifest, topic)
    if to_topic in {one["topic"] for one in manifest["topics"]}:
        raise UserError(f"--to-topic {to_topic} is where the records came from; name a topic of their own")
    settings = session.load_settings()
    where = session.with_address(settings, session.cluster_named(settings, cluster or manifest["cluster"]))
    with ended_by_sigterm(), _asking(where) as view, progress.shown() as show:
        parts = _parts(directory, manifest, source)
        replicas = (replication_factor or where.topic.replication_factor) if create else None
        _target(view, to_topic, source, parts, replicas)
        name = "salvage"
        properties = calm(producer_config(where), name, forced=replaying.GAPLESS)
        producer = opening.producer(properties, quiet_logger(name))
        reading = calm(consumer_config(where, "read_committed"), name)
        with closing(opening.consumer(reading, quiet_logger(name))) as consumer:
            done = replaying.replay(parts, to_topic, producer, consumer, show)
    rows = [one._asdict() for one in done]
    untimed = sum(part.untimed for part in parts)
    document = {"topic": to_topic, "cluster": where.name, "partitions": rows, "untimed": untimed}
    session.report(document, "\n".join(_replayed(to_topic, done, untimed)), json=json)


@contextmanager
def _asking(cluster: ClusterSettings) -> Iterator[ClusterView]:
    """Open both clients of a cluster.

    Raises:
        UserError: it does not answer.
    """
    from canary.kafka import opening  # noqa: PLC0415
    from canary.kafka.quiet import calm, quiet_logger  # noqa: PLC0415
    from canary.salvage.cluster import ClusterView  # noqa: PLC0415
    from canary.settings import admin_config  # noqa: PLC0415
    from canary.wire.client import opened  # noqa: PLC0415
    from canary.wire.errors import WireError  # noqa: PLC0415

    config = admin_config(cluster)
    try:
        with opened(config) as wire:
            yield ClusterView(cluster.name, opening.admin(calm(config, "salvage"), quiet_logger("salvage")), wire)
    except WireError as error:
        raise UserError(f"cluster {cluster.name}: {error}; see clusters[].kafka", _UNREACHABLE) from error


def _source(manifest: dict[str, Any], topic: str | None) -> dict[str, Any]:
    names = [one["topic"] for one in manifest["topics"]]
    if topic is None and len(names) != 1:
        raise UserError(f"--topic is needed; there are: {', '.join(names)}")
    if topic is not None and topic not in names:
        raise UserError(f"--topic {topic} is not there; there are: {', '.join(names)}")
    return next(dict(one) for one in manifest["topics"] if topic in {None, one["topic"]})


def _parts(directory: Path, manifest: dict[str, Any], source: dict[str, Any]) -> list[Part]:
    """Return what each partition of the target gets; partitions without records get nothing, and are to be empty."""
    from canary.salvage.replaying import Part, part_of  # noqa: PLC0415

    parts = {number: Part(number) for number in range(source["partitions"])}
    for one in manifest["partitions"]:
        if one["topic"] == source["topic"] and one["file"] is not None:
            part = part_of(one["partition"], directory / one["file"])
            if part.records != one["counts"]["salvaged"]:
                raise UserError(
                    f"{part.file} holds {part.records} records, and its manifest says {one['counts']['salvaged']}: "
                    "it was changed; salvage again"
                )
            parts[part.partition] = part
    return list(parts.values())


def _target(  # what a topic is looked at for
    view: ClusterView, name: str, source: dict[str, Any], parts: list[Part], replicas: int | None
) -> None:
    """Look at the target, and make it if it is to be made: with so many ``replicas``.

    Raises:
        UserError: it is not there, has other partitions, or its settings would change what is written.
    """
    from canary.kafka.topic_creation import ensure_topic  # noqa: PLC0415
    from canary.salvage.replaying import objections  # noqa: PLC0415

    if replicas is not None:
        config = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
        config |= {"message.timestamp.type": "CreateTime"}
        if source["max_message_bytes"] is not None:
            config["max.message.bytes"] = source["max_message_bytes"]
        ensure_topic(view.admin, name, source["partitions"], replicas, config, setting="--replication-factor")
    target = view.topic(name, made=replicas is not None)
    if target is None and replicas is not None:
        raise UserError(f"--to-topic {name} was made, but no broker tells of it: try without --create", _UNREACHABLE)
    if target is None:
        raise UserError(
            f"--to-topic {name} does not exist: make it with {source['partitions']} partitions, or --create"
        )
    if target.partitions != source["partitions"]:
        raise UserError(
            f"--to-topic {name} has {target.partitions} partitions, {source['topic']} has {source['partitions']}"
        )
    now_ms = time.time_ns() // 10**6
    oldest = min((part.oldest_ms for part in parts if part.oldest_ms is not None), default=now_ms)
    if wrong := list(objections(target.settings, oldest, now_ms)):
        raise UserError(f"--to-topic {name}: {'; '.join(wrong)}")


def _print(document: dict[str, Any], out: Path | None) -> None:
    from rich.console import Console  # noqa: PLC0415  # only for people
    from rich.markup import escape  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    columns = _COLUMNS + (_NOT_VERIFIED if document["options"]["verify"] else ()) + ("damaged",)
    table = Table("partition", *columns)
    for one in document["partitions"]:
        counts = one["counts"] | {"damaged": len(one["damage"])}
        table.add_row(f"{one['topic']}-{one['partition']}", *(_number(counts[name]) for name in columns))
    if len(document["partitions"]) > 1:
        table.add_section()
        table.add_row("total", *(_number(document["total"][name]) for name in columns))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(table)
    for line in _remarks(document):
        console.print(escape(line), soft_wrap=True)
    console.print("Nothing was written." if out is None else escape(f"Everything is in {out}."), soft_wrap=True)


def _number(count: int | None) -> str:
    return "unknown" if count is None else str(count)


def _remarks(document: dict[str, Any]) -> Iterator[str]:
    for one in document["unknown"]:
        yield f"{one['topic']}-{one['partition']}: UNKNOWN what is gone: {one['reason']}"
    for name in document["set_aside"]:
        yield f"{name} was not read: Kafka has set it aside; to read it, name a copy called TOPIC-PARTITION"
    for one in document["partitions"]:
        name = f"{one['topic']}-{one['partition']}"
        for span in one["log"]:
            if span["fate"] == "gone":
                yield f"{name}: offsets {span['start']} to {span['end'] - 1} of leader epoch {span['epoch']} are gone"
        for damage in one["damage"]:
            place = f"{damage['file']} at byte {damage['position']}, {damage['size']} bytes"
            yield f"{name}: damaged ({damage['what']}): {place}, from offset {damage['offset']} on"
        for open_ in one["undecided"]:
            said = f"; the cluster says {open_['cluster_says']} at {open_['at']}" if open_["cluster_says"] else ""
            place = f"of producer {open_['producer_id']} from offset {open_['first']} on"
            yield f"{name}: transaction {place}: undecided{said}"
        for note in one["notes"]:
            yield f"{name}: {note}"


def _replayed(topic: str, done: list[Replayed], untimed: int) -> Iterator[str]:
    for one in done:
        if one.before or one.written:
            there = f"{one.before} were there, " if one.before else ""
            yield f"{topic}:{one.partition}: {there}{one.written} written"
    total = sum(one.before + one.written for one in done)
    if untimed:
        yield f"{untimed} records have no timestamp of their own, and got the present time"
    yield f"{total} records read back: 0 missing, 0 added, in order."

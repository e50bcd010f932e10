"""``canary replicas compare``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it
from canary.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from canary.settings import ClusterSettings
    from canary.watching.replicas.outcomes import Outcome
    from canary.watching.replicas.source import Source

_BAD_INPUT: Final = 2
_UNKNOWN: Final = 3
_TIMEOUT_S: Final = 10.0
_MOST_ROWS: Final = 200

Found = tuple["ClusterSettings", "Outcome"]


def compare(  # a command line has options
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of a topic.")],
    *,
    partition: Annotated[
        list[int] | None, typer.Option(metavar="NUMBER", help="Only this partition (repeat).", show_default=False)
    ] = None,
    start: Annotated[int, typer.Option("--from", metavar="OFFSET", min=0, help="The first offset.")] = 0,
    end: Annotated[
        int | None,
        typer.Option("--to", metavar="OFFSET", min=1, help="The first offset that is left out.", show_default=False),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this cluster of the settings.", show_default=False)
    ] = None,
    bytes_per_second: Annotated[
        str, typer.Option(metavar="SIZE", help="What may be read in a second, from all replicas together.")
    ] = "10MB",
    json: JsonOption = False,
) -> None:
    """Compare the replicas of a topic, and say by broker, partition and offset where they differ.

    Reads records, keeps none, changes nothing. Exit status 0: the same; 1: they differ; 2: bad input; 3: not all could
    be compared.

    Example: canary replicas compare orders --partition 3 --from 120000 --to 130000
    """
    settings = session.load_settings()
    rate = _rate(bytes_per_second)
    found: list[Found] = []
    for one in settings.clusters if cluster is None else [session.cluster_named(settings, cluster)]:
        reached = session.with_address(settings, one)
        found += [(one, outcome) for outcome in _compared(reached, topic, partition, (start, end), rate)]
    report = _as_json(found)
    session.report(report, "\n".join(_lines(report)), json=json)
    if report["divergences"]:
        raise typer.Exit(1)
    if report["unknown"]:
        raise typer.Exit(_UNKNOWN)


def _rate(words: str) -> int:
    from pydantic_core import PydanticCustomError  # noqa: PLC0415  # pydantic takes its time

    from canary.settings.fields import size  # noqa: PLC0415

    try:
        found = size(words)
    except PydanticCustomError as error:
        raise typer.BadParameter(error.message(), param_hint="--bytes-per-second") from None
    if found < 1:
        raise typer.BadParameter("it has to be 1 at least", param_hint="--bytes-per-second")
    return found


def _compared(  # each says one thing of what is compared
    cluster: ClusterSettings,
    topic: str,
    partitions: Sequence[int] | None,
    bounds: tuple[int, int | None],
    rate: int,
) -> list[Outcome]:
    from canary.cli import progress  # noqa: PLC0415  # structlog takes its time
    from canary.settings import admin_config  # noqa: PLC0415
    from canary.watching.replicas.source import Source  # noqa: PLC0415
    from canary.wire.client import opened  # noqa: PLC0415
    from canary.wire.errors import WireError  # noqa: PLC0415

    try:
        with opened(admin_config(cluster), _TIMEOUT_S) as admin, progress.shown() as show:
            source = Source(admin)
            there = sorted(one.partition for one in source.partitions(topic))
            if not there:
                raise UserError(f"{cluster.name}: there is no topic {topic}, or we may not Describe it", _UNKNOWN)
            if wrong := set(partitions or ()) - set(there):
                raise UserError(f"{cluster.name}: {topic} has no partition {min(wrong)}", _BAD_INPUT)
            found = []
            for done, number in enumerate(partitions or there):
                show(f"partitions of {topic}", done, len(partitions or there))
                found.append(_one(source, (topic, number), bounds, rate, show))
            show(f"partitions of {topic}", len(found), len(found))
            return found
    except WireError as error:
        raise UserError(f"{cluster.name}: {error}; see clusters[].kafka", _UNKNOWN) from error


def _one(  # each says one thing of what is compared
    source: Source,
    place: tuple[str, int],
    bounds: tuple[int, int | None],
    rate: int,
    show: Callable[[str, int, int], None],
) -> Outcome:
    from canary.watching.replicas.comparing import Comparison  # noqa: PLC0415

    comparison = Comparison(source, *place, start=bounds[0], end=bounds[1])
    last = bounds[1]
    try:
        for step in comparison.run():
            end = min(last, comparison.high_watermark) if last is not None else comparison.high_watermark
            if 0 < comparison.at < end:
                show(f"offsets of {place[0]}-{place[1]}", comparison.at, end)
            time.sleep(max(step.pause_s, step.bytes / rate))
    except KeyboardInterrupt:
        comparison.outcome.unknown["unanswered", None] = "it was stopped before its end"
    return comparison.outcome


def _as_json(found: Sequence[Found]) -> dict[str, list[dict[str, Any]]]:
    report: dict[str, list[dict[str, Any]]] = {"divergences": [], "unknown": [], "compared": []}
    for cluster, outcome in found:
        place = {"cluster": cluster.name, "topic": outcome.topic, "partition": outcome.partition}
        bounds = {"from": outcome.start, "to": outcome.compared_to, "offsets": outcome.offsets}
        bounds["bytes"] = outcome.bytes
        report["compared"].append(place | bounds)
        for one in outcome.divergences:
            words = {"first_offset": one.first, "last_offset": one.last, "text": one.sentence}
            report["divergences"].append(place | words | one.evidence)
        if outcome.left_out:
            report["unknown"].append(place | {"reason": "left-out", "text": f"{outcome.left_out} more ranges differ"})
        if outcome.alone:
            report["unknown"].append(place | {"reason": "alone", "text": "it has one replica, and no other"})
        for (reason, broker), text in outcome.unknown.items():
            report["unknown"].append(place | {"reason": reason, "broker": broker, "text": text})
    return report


def _lines(report: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    several = len({one["cluster"] for one in report["compared"]}) > 1
    rows = [
        (
            f"{one['cluster']}, {one['topic']}-{one['partition']}" if several else f"{one['topic']}-{one['partition']}",
            f"{one['first_offset']} to {one['last_offset']}",
            f"{one['differing_records']}",
            ", ".join(map(str, one["brokers"])),
            one["text"],
        )
        for one in report["divergences"]
    ]
    if rows:
        rows = [("PARTITION", "OFFSETS", "RECORDS", "BROKERS", "WHAT"), *rows]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        for row in rows[: _MOST_ROWS + 1]:
            cells = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
            yield "  ".join([*cells, row[4]])
        if len(rows) > _MOST_ROWS + 1:
            yield f"... {len(rows) - _MOST_ROWS - 1} more: --json has all"
    for one in report["unknown"]:
        yield f"unknown: {one['cluster']}, {one['topic']}-{one['partition']}: {one['text']}"
    offsets = sum(one["offsets"] for one in report["compared"])
    size = sum(one["bytes"] for one in report["compared"])
    count = len(report["divergences"])
    verdict = f"{count} range{'s differ' if count > 1 else ' differs'}" if count else "no difference was found"
    of = f"{len(report['compared'])} partition{'s' if len(report['compared']) > 1 else ''}"
    yield f"{offsets:,} offsets of {of} were compared ({size / 1e6:,.1f} MB): {verdict}."

"""``canary export``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path  # typer reads it
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from canary.cli import session
from canary.errors import UserError

if TYPE_CHECKING:
    from canary.settings import Settings
    from storage.probe_log.windows import Window


def export(
    *,
    violation: Annotated[str | None, typer.Option(metavar="ID", help="The history around this violation.")] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="T", help="Begin, in RFC 3339 (UTC if it has no offset).")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="T", help="End (exclusive).")] = None,
    cluster: Annotated[str | None, typer.Option(help="With --from; needed if there are several.")] = None,
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    format: Annotated[Literal["jsonl", "edn"], typer.Option(help="EDN as Jepsen writes it.")] = "jsonl",  # noqa: A002  # its name in CONTRACTS
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Default: standard output.")] = None,
) -> None:
    """Write what was sent and read in a time as a history, for `canary check`, Jepsen's or any other checker.

    Example: canary export --violation 4f8c… --format edn --out history.edn
    """
    from canary.history.writing import write_edn, write_jsonl  # noqa: PLC0415
    from storage.probe_log.reading import ProbeLogReader  # noqa: PLC0415
    from storage.probe_log.windows import Window, as_history  # noqa: PLC0415

    settings = session.load_settings()
    if violation is not None:
        if start or end:
            raise UserError("give either --violation, or --from and --to")
        window = _around(settings, violation)
    elif start and end:
        names = [one.name for one in settings.clusters]
        if cluster is None and len(names) != 1:
            raise UserError(f"--cluster is needed; there are: {', '.join(names)}")
        window = Window(cluster or names[0], _time(start, "--from"), _time(end, "--to"), topic, partition)
    else:
        raise UserError("give --violation ID, or --from T and --to T")
    if window.end_ns <= window.begin_ns:
        raise UserError("--to is not after --from")
    operations = as_history(ProbeLogReader(settings.probe_log.url).window(window))
    write = write_edn if format == "edn" else write_jsonl
    if out is None:
        write(operations, sys.stdout.buffer)
        return
    try:
        with out.open("wb") as file:
            count = write(operations, file)
    except OSError as error:
        raise UserError(f"{out}: {error.strerror}") from None
    typer.echo(f"{count} operations in {out}")


def _around(settings: Settings, violation_id: str) -> Window:
    """Return the window of a violation: from a minute before its probe was sent."""
    from storage.probe_log.reading import ProbeLogReader  # noqa: PLC0415
    from storage.probe_log.windows import Window, nanoseconds  # noqa: PLC0415

    with session.open_store(settings) as store:
        row = store.violations.get(violation_id)
    if row is None:
        raise UserError(f"there is no violation with the id {violation_id}")
    found = None if row.identity is None else ProbeLogReader(settings.probe_log.url).find(row.identity)
    probe = (found or {}).get("probe")
    begin = min(row.first_seen_ns, nanoseconds(probe["sent_at"])) if probe else row.first_seen_ns
    minute = 60 * 10**9
    return Window(row.cluster, begin - minute, row.last_seen_ns + minute, row.topic, row.partition)


def _time(words: str, option: str) -> int:
    from storage.probe_log.windows import nanoseconds  # noqa: PLC0415

    try:
        when = datetime.fromisoformat(words)
    except ValueError:
        raise UserError(f"{option} {words!r} is no time; write it like 2026-01-31T12:00:00Z") from None
    return nanoseconds(when if when.tzinfo else when.replace(tzinfo=UTC))

"""``canary drill``: a cluster is broken on purpose, and the alarm has to ring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canary.cli import session
from canary.cli.operate import live_drill
from canary.cli.session import JsonOption  # typer reads it
from canary.errors import UserError

if TYPE_CHECKING:
    from canary.drills.catalogue import Entry
    from canary.drills.rig.result import Brokers, Result

_NOT_POSSIBLE = 3

ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write a page (HTML) of what happened and was said.")
]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="A live cluster of the settings, which is not harmed.")
]
PageOption = Annotated[
    str,
    typer.Option(metavar="DURATION", help="How long the pager's webhook may take, like 5m; never: prove no page."),
]
OwnedOption = Annotated[
    str | None,
    typer.Option(
        "--i-own-this-cluster",
        metavar="NAME",
        help="Also perform drills that break the brokers of --cluster, the embedded ones of a running canary up.",
    ),
]
ControlOption = Annotated[
    bool, typer.Option("--control/--no-control", help="Perform the control first: the same on safe settings.")
]
KeepOption = Annotated[
    Path | None, typer.Option("--keep", metavar="DIR", help="Keep logs and data of brokers and canary here.")
]


ResultsOption = Annotated[
    Path | None, typer.Option("--results", metavar="FILE", help="Append a line of JSON with the outcome of each drill.")
]


@dataclass(frozen=True, slots=True)
class Files:
    """Where drills write beside the terminal, as the options say; None: nowhere."""

    report: Path | None
    results: Path | None
    keep: Path | None

    def refuse_missing_places(self) -> None:
        """Refuse a file in a directory that is not there, before anything is broken."""
        for option, file in (("--report", self.report), ("--results", self.results)):
            if file is not None and not file.absolute().parent.is_dir():
                raise UserError(f"{option} {file}: there is no directory {file.parent}")

    def add(self, line: Mapping[str, Any]) -> None:
        """Append an outcome to the results."""
        if self.results is not None:
            with self.results.open("a", encoding="utf-8") as lines:
                lines.write(dumps(line) + "\n")


def list_drills(*, json: JsonOption = False) -> None:
    """Show every drill: what it does, and what the canary has to say.

    Example: canary drill list
    """
    from canary.drills.catalogue import drills  # noqa: PLC0415

    found = drills().values()
    rows = [
        {
            "name": one.name,
            "room": one.room,
            "title": one.drill.title,
            "source": one.drill.source,
            "version": one.drill.stage.version,
            "says": [said.kind for said in one.drill.says],
            "live": one.drill.live,
            "story": one.story,
        }
        for one in found
    ]
    width = max(len(one.name) for one in found)
    lines = [
        f"{one.name:<{width}}  {one.drill.title}\n{'':<{width}}  {', '.join(said.kind for said in one.drill.says)}"
        for one in found
    ]
    session.report({"items": rows}, "\n".join(lines), json=json)


def run(  # noqa: PLR0913  # the options of a command
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="One or more; see `canary drill list`.")],
    *,
    control: ControlOption = True,
    report: ReportOption = None,
    results: ResultsOption = None,
    keep: KeepOption = None,
    cluster: ClusterOption = None,
    page_within: PageOption = "5m",
    owned: OwnedOption = None,
    json: JsonOption = False,
) -> None:
    """Perform drills on throwaway brokers of this machine: break them, and see the canary find it.

    With --cluster in a live one, through to the pager: only drills that harm nothing but its drill topic.

    Exit status 0: everything was found, nothing false was said, and the control was silent; 1: something was missed or
    false; 3: not possible here.

    Example: canary drill run fsync-loss --report fsync-loss.html
    """
    from canary.drills.catalogue import drills  # noqa: PLC0415

    known = drills()
    if unknown := [name for name in names if name not in known]:
        raise UserError(f"there is no drill {', '.join(unknown)}; see `canary drill list`")
    entries = [known[name] for name in names]
    if cluster is None:
        _perform(entries, control=control, files=Files(report, results, keep), json=json)
    elif owned is None:
        live_drill.perform(entries, cluster, page_within, json=json)
    else:
        brokers = live_drill.owned(cluster, owned)
        _perform(entries, control=False, files=Files(report, results, keep), json=json, brokers=brokers)


def run_all(
    *,
    control: ControlOption = True,
    report: ReportOption = None,
    results: ResultsOption = None,
    keep: KeepOption = None,
    json: JsonOption = False,
) -> None:
    """Perform every drill, one after the other. It takes about a minute each.

    Example: canary drill all --json
    """
    from canary.drills.catalogue import drills  # noqa: PLC0415

    _perform(list(drills().values()), control=control, files=Files(report, results, keep), json=json)


def _perform(
    entries: Sequence[Entry],
    *,
    control: bool,
    files: Files,
    json: bool,
    brokers: Brokers | None = None,
) -> None:
    from canary.drills.report import document  # noqa: PLC0415  # Kafka's client takes its time
    from canary.drills.report.page import page  # noqa: PLC0415
    from canary.drills.rig.performance import lab  # noqa: PLC0415
    from canary.drills.rig.result import attempt  # noqa: PLC0415
    from canary.processes import signals  # noqa: PLC0415

    files.refuse_missing_places()
    stopping = signals.stop_on_signals()
    found: list[Result] = []
    for entry in entries:
        typer.echo(f"{entry.name}: {entry.drill.title}", err=True)
        result = attempt(
            entry,
            stopping,
            lambda line: typer.echo(f"  {line}", err=True),
            files.keep,
            with_control=control,
            brokers=brokers or lab,
        )
        found.append(result)
        if not json:
            typer.echo(document.text(result))
        if stopping.is_set():  # it was cut short, and shows nothing
            break
        files.add(document.line(result))
    if json:
        session.report({"items": [document.document(one) for one in found]}, "", json=True)
    if files.report is not None:
        files.report.write_text(page(found), encoding="utf-8")
    if any(one.failed for one in found):
        raise typer.Exit(1)
    if any(one.impossible for one in found) or stopping.is_set():
        raise typer.Exit(_NOT_POSSIBLE)

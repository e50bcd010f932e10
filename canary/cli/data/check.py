"""``canary check HISTORY``: a recorded history against every rule of the offline checker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path  # typer reads it
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from canary.cli.session import JsonOption  # typer reads it
from canary.errors import UserError
from canary.extras import require

if TYPE_CHECKING:
    from canary.anomalies.offline import Options, Verdict
    from spark_reconcile.history.check import SparkVerdict


def check(
    history: Annotated[Path, typer.Argument(metavar="HISTORY", help="JSON Lines or Jepsen's EDN; - for stdin.")],
    *,
    sub_via: Annotated[
        list[str] | None,
        typer.Option(help="How consumers came to their keys: assign (default), subscribe, or both (repeat)."),
    ] = None,
    ww_deps: Annotated[bool, typer.Option(help="Count the order of writes as dependency (G0; allows G1c).")] = True,
    extras: Annotated[bool, typer.Option(help="With --json: lag, unseen over time, consumption, orders.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report with pictures, too.")] = None,
    engine: Annotated[Literal["local", "spark"], typer.Option(help="spark: histories beyond memory.")] = "local",
    json: JsonOption = False,
) -> None:
    """Check a recorded history: lost and duplicate writes, skips, aborted reads, cycles. Exit status 0 valid, 1 not.

    Example: canary check store/latest/history.edn --sub-via subscribe --html report.html
    """
    from canary.anomalies.offline import Options  # noqa: PLC0415  # NumPy takes its time

    vias = frozenset(via for option in sub_via or ["assign"] for via in option.split(","))
    if not vias <= {"assign", "subscribe"}:
        raise UserError(f"--sub-via is assign or subscribe, not {', '.join(sorted(vias))}")
    options = Options(sub_via=vias, ww_deps=ww_deps)
    if html is not None:
        require("pictures", "--html")
    if engine == "spark":
        require("spark", "--engine spark")
        if extras or html is not None:
            raise UserError("--engine spark gives neither --extras nor --html")
        raise typer.Exit(_by_spark(history, options, json=json))
    with _usable(history):
        verdict = _locally(history, options)
    if html is not None:
        from canary.cli.data import history_page  # noqa: PLC0415

        page = history_page.render(verdict)
        with _usable(f"--html {html}"):
            html.write_text(page, encoding="utf-8")
    raise typer.Exit(_report(verdict, json=json, extras=extras))


def _locally(history: Path, options: Options) -> Verdict:
    from canary.anomalies.offline import check as check_history  # noqa: PLC0415
    from canary.history.reading import load  # noqa: PLC0415

    with ExitStack() as stack:
        if str(history) == "-":
            file, total = sys.stdin.buffer, None
        else:
            file, total = stack.enter_context(history.open("rb")), history.stat().st_size
        loaded = load(file, str(history), stack.enter_context(_progress(total)))
    return check_history(loaded, options)


def _by_spark(history: Path, options: Options, *, json: bool) -> int:
    from spark_reconcile.history.check import check_file  # noqa: PLC0415  # Spark takes its time

    if str(history) == "-":
        raise UserError("--engine spark reads a file, not stdin; write it to one first")
    with _usable(history), check_file(history, options) as verdict:
        return _report(verdict, json=json)


def _report(verdict: Verdict | SparkVerdict, *, json: bool, extras: bool = False) -> int:
    """Print the verdict; return the exit status."""
    from canary.cli.data import history_report  # noqa: PLC0415

    if json:
        history_report.write_json(verdict, sys.stdout.buffer, extras=extras)
    else:
        history_report.show(verdict)
    return 0 if verdict.valid else 1


@contextmanager
def _usable(name: object) -> Iterator[None]:
    """Report a file that cannot be opened, and a history that cannot be read, as the user's error."""
    from canary.history.errors import HistoryError  # noqa: PLC0415

    try:
        yield
    except HistoryError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{name}: {error.strerror or error}") from None


@contextmanager
def _progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the bytes read; it draws a bar on a terminal's stderr, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=total)
        yield lambda read: bar.advance(task, read)

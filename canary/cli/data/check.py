"""``canary check HISTORY``: a recorded history against every rule of the offline checker."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path  # noqa: TC003  # typer reads it
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer

from canary.cli.session import JsonOption  # noqa: TC001  # typer reads it
from canary.errors import UserError
from canary.extras import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from canary.anomalies.offline import Options, Verdict

BAD_INPUT = 2


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check")(check)


def check(  # as many as there are options
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
        raise UserError(f"--sub-via is assign or subscribe, not {', '.join(sorted(vias))}", BAD_INPUT)
    options = Options(sub_via=vias, ww_deps=ww_deps)
    if html is not None:
        require("pictures", "--html")
    if engine == "spark":
        require("spark", "--engine spark")
        if extras or html is not None:
            raise UserError("--engine spark gives neither --extras nor --html", BAD_INPUT)
        raise typer.Exit(_by_spark(history, options, json=json))
    verdict = _locally(history, options)
    if html is not None:
        from canary.cli import history_page  # noqa: PLC0415

        _write(html, history_page.render(verdict))
    from canary.cli import history_report  # noqa: PLC0415

    if json:
        history_report.write_json(verdict, sys.stdout.buffer, extras=extras)
    else:
        history_report.show(verdict)
    raise typer.Exit(0 if verdict.valid else 1)


def _locally(history: Path, options: Options) -> Verdict:
    from canary.anomalies.offline import check as check_history  # noqa: PLC0415
    from canary.history import HistoryError, load  # noqa: PLC0415

    try:
        with ExitStack() as stack:
            file = _open(history, stack)
            total = None if str(history) == "-" else history.stat().st_size
            advance = stack.enter_context(_progress(total))
            loaded = load(file, str(history), advance)
    except HistoryError as error:
        raise UserError(str(error), BAD_INPUT) from None
    except OSError as error:
        raise UserError(f"{history}: {error.strerror or error}", BAD_INPUT) from None
    return check_history(loaded, options)


def _open(history: Path, stack: ExitStack) -> BinaryIO:
    if str(history) == "-":
        return sys.stdin.buffer
    return stack.enter_context(history.open("rb"))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--html {path}: {error.strerror or error}", BAD_INPUT) from None


def _by_spark(history: Path, options: Options, *, json: bool) -> int:
    from canary.history import HistoryError  # noqa: PLC0415
    from spark_reconcile.history_check import check_file  # noqa: PLC0415  # Spark takes its time

    if str(history) == "-":
        raise UserError("--engine spark reads a file, not stdin; write it to one first", BAD_INPUT)
    from canary.cli import history_report  # noqa: PLC0415

    try:
        with check_file(history, options) as verdict:
            if json:
                history_report.write_json(verdict, sys.stdout.buffer)
            else:
                history_report.show(verdict)
            return 0 if verdict.valid else 1
    except HistoryError as error:
        raise UserError(str(error), BAD_INPUT) from None
    except OSError as error:
        raise UserError(f"{history}: {error.strerror or error}", BAD_INPUT) from None


@contextmanager
def _progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield what is told of bytes read; draws a bar on a terminal's stderr, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=total)
        yield lambda read: bar.advance(task, read)

"""``canary alert test``: a marked page through the real path, from the store to whoever is woken."""

from __future__ import annotations

import json as json_module
import time
import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # noqa: TC001  # typer reads it
from canary.errors import UserError

if TYPE_CHECKING:
    from canary.anomalies.violation import Violation


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True)
    group.command("test")(ring)
    app.add_typer(group, name="alert", help="See whether an alarm would reach somebody.")


def ring(
    *,
    cluster: Annotated[str | None, typer.Option(help="Needed if there are several.")] = None,
    hold: Annotated[int, typer.Option("--for", min=1, max=3600, help="Seconds until the test ends by itself.")] = 120,
    json: JsonOption = False,
) -> None:
    """Record a violation of the kind alert-test, which pages like a loss and ends by itself.

    It goes the whole way: store, /metrics, Prometheus, Alertmanager, pager. It counts as no loss: the status page
    calls it a test, and it is resolved when --for is over (or at Ctrl-C).

    Example: canary alert test --cluster prod-eu --for 5m
    """
    from storage.store import Store  # noqa: PLC0415  # SQLAlchemy takes its time

    settings = session.load_settings()
    names = [one.name for one in settings.clusters]
    name = cluster or (names[0] if len(names) == 1 else None)
    if name is None or name not in names:
        raise UserError(f"name one with --cluster; there are: {', '.join(names)}", 2)
    found = a_test(time.time_ns())
    with Store.connect(settings.store.url.get_secret_value(), timeout=settings.store.timeout) as store:
        store.upgrade()
        store.note_action("command line", "alert-test", f"cluster {name}", found.at_ns, {"for_s": hold})
        store.record(name, [found])
        key = found.key(name)
        if not json:
            typer.echo(f"recorded {key} in {name}: CanaryAlertTest should reach you now; it ends in {hold} s")
        try:
            time.sleep(hold)
        finally:
            store.end([key], time.time_ns())
    typer.echo(json_module.dumps({"violation": key, "cluster": name}) if json else "ended; the alert should resolve")


def a_test(at_ns: int) -> Violation:
    """Return a violation that is plainly a test, and its own one each time."""
    from canary.anomalies.violation import Violation  # noqa: PLC0415

    mark = uuid.uuid4().hex
    return Violation(
        kind="alert-test",
        severity="critical",
        topic="alert-test",
        topic_id=mark,
        partition=None,
        offset=None,
        identity=None,
        mode=None,
        at_ns=at_ns,
        by="watch",
        summary="This is a test of the alarm, asked for by `canary alert test`. Nothing is wrong.",
        evidence={"test": True, "mark": mark},
    )

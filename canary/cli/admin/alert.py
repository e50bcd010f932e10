"""``canary alert test``: a marked alert through the real path, from the store to the pager."""

import time
import uuid
from typing import Annotated

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it
from canary.errors import UserError


def ring(
    *,
    cluster: Annotated[str | None, typer.Option(help="Name of the cluster; needed if there are several.")] = None,
    hold: Annotated[int, typer.Option("--for", min=1, max=3600, help="Seconds until the test ends by itself.")] = 120,
    json: JsonOption = False,
) -> None:
    """Record a violation of the kind alert-test, which pages like a loss and ends by itself.

    It goes the whole way: store, /metrics, Prometheus, Alertmanager, pager. It does not count as a loss: the status
    page calls it a test, and it is resolved when --for is over (or at Ctrl-C).

    Example: canary alert test --cluster prod-eu --for 5m
    """
    from canary.anomalies.violation import Violation  # noqa: PLC0415

    settings = session.load_settings()
    names = [one.name for one in settings.clusters]
    name = cluster or (names[0] if len(names) == 1 else None)
    if name is None or name not in names:
        raise UserError(f"name one with --cluster; there are: {', '.join(names)}")
    mark = uuid.uuid4().hex  # makes each test a violation of its own
    found = Violation(
        kind="alert-test",
        severity="critical",
        topic="alert-test",
        topic_id=mark,
        at_ns=time.time_ns(),
        by="watch",
        summary="This is a test of the alarm, asked for by `canary alert test`. Nothing is wrong.",
        evidence={"test": True, "mark": mark},
    )
    with session.open_store(settings) as store:
        store.upgrade()
        store.actions.record("command line", "alert-test", f"cluster {name}", found.at_ns, {"for_s": hold})
        store.violations.record(name, [found])
        key = found.key(name)
        if not json:
            typer.echo(f"recorded {key} in {name}: CanaryAlertTest should reach you now; it ends in {hold} s")
        try:
            time.sleep(hold)
        finally:
            store.violations.end([key], time.time_ns())
    session.report({"violation": key, "cluster": name}, "ended; the alert should resolve", json=json)

"""``canary alert test``: a marked alert through the real path, from the store to the pager."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from json import dumps
from typing import TYPE_CHECKING, Annotated, Final

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it
from canary.errors import UserError

if TYPE_CHECKING:
    from storage.store import Store


_SILENT_S: Final = 120.0
"""A heartbeat is called each minute while all is well; one that was not for longer reaches nobody."""
_SILENT: Final = f"a heartbeat, not called for {_SILENT_S:g} s: see heartbeat_stops in the log of `canary serve`"


def ring(
    *,
    cluster: Annotated[str | None, typer.Option(help="Name of the cluster; needed if there are several.")] = None,
    hold: Annotated[int, typer.Option("--for", min=1, max=3600, help="Seconds until the test ends by itself.")] = 120,
    json: JsonOption = False,
) -> None:
    """Record a violation of the kind alert-test, which pages like a loss and ends by itself.

    It goes the whole way: store, /metrics, Prometheus, Alertmanager, pager; and by `canary serve` to every receiver of
    the settings (notify), of which it is said when they were told. A heartbeat is told of no test: it has to have been
    called within two minutes. It does not count as a loss: the status page calls
    it a test, and it is resolved when --for is over (or at Ctrl-C).

    Example: canary alert test --cluster prod-eu --for 300
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
        receivers: dict[str, float | None] = dict.fromkeys(one.name for one in settings.notify if one.is_told)
        until = time.monotonic() + hold
        try:
            while (left := until - time.monotonic()) > 0:
                time.sleep(min(left, 1.0))
                for told in _told(store, key, found.at_ns, receivers):
                    if not json:
                        typer.echo(told)
        finally:
            store.violations.end([key], time.time_ns())
        missing = [f"{name} ({_why(store, key, name)})" for name, after_s in receivers.items() if after_s is None]
        heartbeats = _called(store, [one.name for one in settings.notify if not one.is_told])
        missing += [f"{name} ({_SILENT})" for name, age_s in heartbeats.items() if age_s is None or age_s > _SILENT_S]
    document = {"violation": key, "cluster": name, "receivers": receivers, "heartbeats": heartbeats}
    session.report(document, "ended; the alert should resolve", json=json)
    if missing:
        raise UserError(f"not told within {hold} s: {', '.join(missing)}", 3)


def rules() -> None:
    """Print rules for Prometheus that name each cluster of the settings: CanaryAbsent fires while one has no series.

    The shipped CanaryVanished knows a cluster by its series and forgets it after 3 h; these rules never do. Load the
    file beside the shipped one, and make it again when a cluster is added or taken out.

    Example: canary alert rules --config canary.yaml > /etc/prometheus/rules/canary-clusters.yml
    """
    import yaml  # noqa: PLC0415

    from api.pages.runbooks import alerts  # noqa: PLC0415  # FastAPI takes its time

    settings = session.load_settings()
    known, address = alerts()["CanaryVanished"], settings.api.address
    annotations = {
        "summary": "Prometheus has no series of {{ $labels.cluster }}",
        "description": " ".join(["Cluster {{ $labels.cluster }}.", known["meaning"], *known["advice"]]),
    }
    if address is not None:
        annotations["runbook_url"] = f"{address}/runbooks/CanaryVanished?cluster={{{{ urlquery $labels.cluster }}}}"
    labels = {"severity": "critical", "class": "blindness", "service": "kafka-durability-canary"}
    found = [
        {
            "alert": "CanaryAbsent",
            "expr": f"absent(canary_api_cluster_store_up{{cluster={dumps(one.name, ensure_ascii=False)}}})",
            "for": known["hold"],
            "labels": labels | {"cluster": one.name},
            "annotations": annotations.copy(),
        }
        for one in settings.clusters
    ]
    typer.echo("# Made by `canary alert rules` from the clusters of the settings.")
    content = {"groups": [{"name": "kafka-durability-canary-absent", "rules": found}]}
    typer.echo(yaml.safe_dump(content, sort_keys=False, width=4096, allow_unicode=True), nl=False)


def _called(store: Store, names: list[str]) -> dict[str, float | None]:
    """Return how many seconds ago each heartbeat was called; None: never."""
    known = {one.name: one.looked_ns for one in store.notifications.receivers(names)}
    return {name: round((time.time_ns() - known[name]) / 1e9, 1) if name in known else None for name in names}


def _told(store: Store, incident: str, since_ns: int, receivers: dict[str, float | None]) -> Iterator[str]:
    """Note after how many seconds a receiver was told; yield a sentence for each that was not known yet."""
    for one in store.notifications.of_incident(incident):
        if one.state == "delivered" and receivers.get(one.receiver, 0.0) is None:
            receivers[one.receiver] = round(((one.ended_ns or since_ns) - since_ns) / 1e9, 1)
            yield f"{one.receiver} was told after {receivers[one.receiver]} s"


def _why(store: Store, incident: str, receiver: str) -> str:
    """Return why a receiver was not told."""
    mine = [one for one in store.notifications.of_incident(incident) if one.receiver == receiver]
    if not mine:
        return "no `canary serve` with these settings looks for what it has to be told"
    return mine[0].error or "its first attempt is not over"

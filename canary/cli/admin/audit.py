"""``canary audit``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it
from canary.errors import UserError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from canary.settings import ClusterSettings, Settings

_FOUND: Final = 1
_UNREACHABLE: Final = 3


def audit(*, json: JsonOption = False) -> None:
    """Look for unsafe settings: of the brokers, the internal topics, the probe topics and the named topics.

    Changes nothing. Exit status 0: safe; 1: findings; 3: a cluster does not answer.

    Example: canary audit --config canary.yaml --json
    """
    from canary.runner.cluster.audit import collect_config  # noqa: PLC0415  # the Kafka client takes its time
    from canary.watching.audit.checks import check  # noqa: PLC0415
    from canary.watching.audit.collection import UnreachableError  # noqa: PLC0415

    settings = session.load_settings()
    report: dict[str, list[dict[str, Any]]] = {"findings": [], "notes": []}
    for cluster, admin in reachable(settings, "audit"):
        try:
            done = check(collect_config(settings, cluster, admin)).as_json()
        except UnreachableError as error:
            raise UserError(f"{cluster.name}: {error}; see clusters[].kafka", _UNREACHABLE) from error
        for name, items in report.items():
            items.extend({"cluster": cluster.name, **one} for one in done[name])
    session.report(report, "\n".join(_lines(report)), json=json)
    if report["findings"]:
        raise typer.Exit(_FOUND)


def reachable(settings: Settings, name: str) -> Iterator[tuple[ClusterSettings, AdminClient]]:
    """Yield each cluster with its address, the embedded lab's too, and an admin client of it; ``name`` names its log.

    Raises:
        UserError: the lab does not run.
    """
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415  # takes its time

    from canary.kafka.quiet import calm, quiet_logger  # noqa: PLC0415
    from canary.settings import admin_config  # noqa: PLC0415

    for given in settings.clusters:
        cluster = session.with_address(settings, given)
        yield cluster, AdminClient(calm(admin_config(cluster), name), logger=quiet_logger(name))


def _lines(report: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    for one in report["findings"]:
        yield f"{one['severity'].upper()} {one['cluster']}, {one['where']}: {one['found']}"
        yield f"  why:    {one['why']}"
        yield f"  change: {one['change']}"
    for one in report["notes"]:
        yield f"note: {one['cluster']}, {one['where']}: {one['text']}"
    count = len(report["findings"])
    yield "Nothing unsafe was found." if not count else f"{count} finding{'s' if count > 1 else ''}."

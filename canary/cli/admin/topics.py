"""``canary topics plan|apply``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from json import dumps
from typing import TYPE_CHECKING, Any

import typer

from canary.cli import session
from canary.cli.admin.audit import reachable
from canary.cli.session import JsonOption  # typer reads it

if TYPE_CHECKING:
    from canary.runner.topics.planning import Plan
    from canary.settings import ClusterSettings


def plan(*, json: JsonOption = False) -> None:
    """Show what would be changed about the probe topics; change nothing. Exit status 3: a cluster does not answer.

    Example: canary topics plan --config canary.yaml
    """
    report = [_as_json(cluster.name, found) for cluster, _, _, found in _plans()]
    _tell(report, json=json)


def apply(*, json: JsonOption = False) -> None:
    """Show and make the changes. Done again, nothing is left to do. Exit status 3: refused, or not answered.

    Never moves replicas or leaders, never deletes.

    Example: canary topics apply --config canary.yaml
    """
    from canary.runner.topics.changes import make  # noqa: PLC0415

    report = []
    for cluster, admin, partitions, found in _plans():
        report.append(_as_json(cluster.name, found))
        if not json:
            _tell(report[-1:], json=False)
        for change in found.changes:
            make(admin, change, partitions)
            if not json:
                typer.echo(f"{cluster.name}: done: {change.action} {change.topic}")
    if json:
        _tell(report, json=True)


def _plans() -> Iterator[tuple[ClusterSettings, Any, int, Plan]]:
    """Yield (cluster, admin client, partitions now, plan) of each probe topic."""
    from canary.runner.cluster import audit  # noqa: PLC0415
    from canary.runner.topics import changes, planning, probe_topics  # noqa: PLC0415

    for cluster, admin in reachable(session.load_settings(), "topics"):
        brokers = changes.live_brokers(admin)
        members = audit.members(cluster)
        for name in dict.fromkeys(cluster.topic_of(mode) for mode in cluster.modes.enabled()):
            wanted = probe_topics.wanted(admin, cluster, name)
            now = changes.existing(admin, name, list(wanted.config))
            yield cluster, admin, len(now.replicas) if now else 0, planning.plan(wanted, now, brokers, members)


def _as_json(cluster: str, found: Plan) -> dict[str, Any]:
    changes = [dataclasses.asdict(change) | {"config": dict(change.config)} for change in found.changes]
    return {"cluster": cluster, "changes": changes, "remarks": list(found.remarks)}


def _tell(report: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        changes = [{"cluster": one["cluster"], **change} for one in report for change in one["changes"]]
        remarks = [{"cluster": one["cluster"], "text": text} for one in report for text in one["remarks"]]
        typer.echo(dumps({"changes": changes, "remarks": remarks}))
        return
    for one in report:
        for change in one["changes"]:
            typer.echo(f"{one['cluster']}: {change['action']} {change['topic']}: {change['why']}")
            for replicas in change["assignments"]:
                typer.echo(f"  + partition on brokers {', '.join(map(str, replicas))} (led by {replicas[0]})")
            for name, value in change["config"].items():
                typer.echo(f"  {name} = {value}")
        for text in one["remarks"]:
            typer.echo(f"{one['cluster']}: note: {text}")
        if not one["changes"]:
            typer.echo(f"{one['cluster']}: nothing to change.")

"""``canary smoke``: one bounded round of every enabled probe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it

if TYPE_CHECKING:
    from canary.processes.smoke import Outcome


def smoke(
    *,
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long to probe, like 30s or 5m.")
    ] = "60s",
    json: JsonOption = False,
) -> None:
    """Probe for a while, read everything again, and report whether the cluster kept its promises.

    A gate for deployments: exit status 0 clean, 1 violation, 3 inconclusive (the cluster is unreachable, or not
    everything could be read). It keeps nothing, and does not disturb a running canary.

    Example: canary smoke --for 30s --config canary.yaml
    """
    from canary.processes import signals, smoke  # noqa: PLC0415  # the Kafka client takes its time

    length = session.seconds_of(duration, "--for")
    outcome = smoke.smoke(session.load_settings(), length, signals.stop_on_signals())
    session.report(outcome.as_json(), _text(outcome), json=json)
    raise typer.Exit(outcome.status)


def _text(outcome: Outcome) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in outcome.counts.items())
    lines = [f"{outcome.as_json()['outcome']}: {counts}"]
    lines += [f"{v['cluster']}: {v['count']} {v['kind']} ({v['severity']})" for v in outcome.violations]
    return "\n".join([*lines, *outcome.doubts])

"""``canary config show|check``."""

from __future__ import annotations

import json as json_module
import os
import threading
from typing import TYPE_CHECKING, Any, Final

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # noqa: TC001  # typer reads it

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary.settings import Problem, Settings

_PATIENCE_S: Final = 30.0
_PLACE: Final = "name a place that runner, scheduler and API can all reach, and may write to"


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True)
    group.command("show")(show)
    group.command("check")(check)
    app.add_typer(group, name="config", help="Show or check the settings.")


def show(*, json: JsonOption = False) -> None:
    """Show the settings in force, defaults filled in, secrets hidden.

    Example: canary config show --config canary.yaml
    """
    import yaml  # noqa: PLC0415

    from canary.settings import redacted  # noqa: PLC0415

    shown = redacted(session.load_settings())
    text = json_module.dumps(shown) if json else yaml.safe_dump(shown, sort_keys=False, allow_unicode=True).rstrip()
    typer.echo(text)


def check(*, json: JsonOption = False) -> None:
    """Check the settings, Kafka's client properties and the probe log's place. Exit status 2 if anything is wrong.

    No cluster is asked. A file is written where the probe log is to be, read and deleted: check where the canary runs.

    Example: canary config check --config canary.yaml
    """
    from canary.settings import SettingsError  # noqa: PLC0415

    problems: tuple[Problem, ...] = ()
    clusters: list[str] = []
    try:
        settings = session.load_settings()
    except SettingsError as error:
        problems = error.problems
    else:
        clusters = [cluster.name for cluster in settings.clusters]
        problems = (*_client_problems(settings), *_probe_log_problems(settings))
    if json:
        typer.echo(json_module.dumps({"valid": not problems, "problems": [_as_json(one) for one in problems]}))
    elif problems:
        for problem in problems:
            typer.echo(str(problem), err=True)
    else:
        typer.echo(f"{session.current().config or 'defaults'}: good; clusters: {', '.join(clusters)}")
    if problems:
        raise typer.Exit(2)


def _as_json(problem: Problem) -> dict[str, Any]:
    return {
        "source": problem.source,
        "line": problem.line,
        "field": problem.field,
        "message": problem.message,
        "remedy": problem.remedy,
    }


def _client_problems(settings: Settings) -> Iterator[Problem]:
    """Have librdkafka judge each cluster's properties, by making a client that has nowhere to go."""
    from confluent_kafka import Consumer, KafkaException  # noqa: PLC0415

    from canary.cli.logging import scrubbed  # noqa: PLC0415
    from canary.settings import Problem, consumer_config, producer_config  # noqa: PLC0415
    from canary.settings.loading import field_name, where  # noqa: PLC0415

    for at, cluster in enumerate(settings.clusters):
        config = producer_config(cluster) | consumer_config(cluster, "read_committed")
        for address in ("bootstrap.servers", "metadata.broker.list"):
            config.pop(address, None)
        try:
            Consumer(config | {"log_level": 0}).close()
        except KafkaException as error:
            said = scrubbed(error.args[0].str())
            named = next((name for name in sorted(cluster.kafka, key=len, reverse=True) if name in said), None)
            place = ("clusters", at, "kafka") if named is None else ("clusters", at, "kafka", named)
            source, line = where(place, session.current().config, os.environ)
            remedy = "see librdkafka's CONFIGURATION.md for what it knows"
            yield Problem(source, line, field_name(place), f"librdkafka refuses it: {said.rstrip('.')}", remedy)


def _probe_log_problems(settings: Settings) -> Iterator[Problem]:
    """Try out the place of the probe log, for so long that a slow object store has answered."""
    from canary.extras import require_for_url  # noqa: PLC0415
    from canary.settings import Problem, UserError  # noqa: PLC0415
    from canary.settings.loading import field_name, where  # noqa: PLC0415
    from storage.probe_log import ProbeLogError, try_out  # noqa: PLC0415  # Arrow takes its time

    said = [f"{settings.probe_log.url} does not answer within {_PATIENCE_S:g} s", _PLACE]

    def tried() -> None:
        try:
            require_for_url(settings.probe_log.url, "the probe log")
            try_out(settings.probe_log.url)
        except ProbeLogError as error:
            said[0] = str(error)
        except UserError as error:
            said[:] = str(error).rsplit(": ", 1)
        else:
            said.clear()

    trying = threading.Thread(target=tried, daemon=True)  # one that hangs does not keep the process
    trying.start()
    trying.join(_PATIENCE_S)
    if words := tuple(said):
        place = ("probe_log", "url")
        source, line = where(place, session.current().config, os.environ)
        yield Problem(source, line, field_name(place), *words)

"""``canary config show|check``."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it

if TYPE_CHECKING:
    from canary.settings import Problem, Settings
    from canary.settings.loading import Place

    _Found = tuple[Place, str, str]
    """A place of the settings, what is wrong there, and what to do."""

_PATIENCE_S: Final = 30.0
_REFUSED: Final = "the cluster refuses a client that has none"
_GSSAPI: Final = (
    "the wheel of confluent-kafka has no Kerberos: pip install --no-binary confluent-kafka confluent-kafka, "
    "beside a librdkafka that has it (Debian: librdkafka-dev)"
)
_PLACE: Final = "name a place that runner, scheduler and API can all reach, and may write to"


def show(*, json: JsonOption = False) -> None:
    """Show the settings in force, defaults filled in, secrets hidden.

    Example: canary config show --config canary.yaml
    """
    import yaml  # noqa: PLC0415

    from canary.settings import redacted  # noqa: PLC0415

    shown = redacted(session.load_settings())
    session.report(shown, yaml.safe_dump(shown, sort_keys=False, allow_unicode=True).rstrip(), json=json)


def check(*, json: JsonOption = False) -> None:
    """Check the settings, Kafka's client properties and the probe log's place. Exit status 2 if anything is wrong.

    No cluster is asked. A file is written where the probe log is to be, read and deleted: check where the canary runs.

    Example: canary config check --config canary.yaml
    """
    from canary.settings import SettingsError  # noqa: PLC0415
    from canary.settings.loading import problem_at  # noqa: PLC0415

    problems: tuple[Problem, ...] = ()
    clusters: list[str] = []
    try:
        settings = session.load_settings()
    except SettingsError as error:
        problems = error.problems
    else:
        clusters = [cluster.name for cluster in settings.clusters]
        config = session.current().config
        found = (*_client_problems(settings), *_probe_log_problems(settings))
        problems = tuple(problem_at(*one, config, os.environ) for one in found)
    if problems and not json:
        typer.echo("\n".join(map(str, problems)), err=True)
    else:
        document = {"valid": not problems, "problems": [dataclasses.asdict(one) for one in problems]}
        good = f"{session.current().config or 'defaults'}: good; clusters: {', '.join(clusters)}"
        session.report(document, good, json=json)
    if problems:
        raise typer.Exit(2)


def _client_problems(settings: Settings) -> Iterator[_Found]:
    """Have librdkafka check each cluster's properties, by making a client without an address."""
    from confluent_kafka import Consumer, KafkaException  # noqa: PLC0415

    from canary.cli.logging import scrubbed  # noqa: PLC0415
    from canary.settings import consumer_config, producer_config  # noqa: PLC0415
    from canary.settings.credentials import MSK_REGION, TOKEN_FILE  # noqa: PLC0415

    for at, cluster in enumerate(settings.clusters):
        config = producer_config(cluster) | consumer_config(cluster, "read_committed")
        for address in ("bootstrap.servers", "metadata.broker.list"):
            config.pop(address, None)
        if "oauth_cb" in config:
            try:
                config["oauth_cb"]("")
            except Exception as error:  # noqa: BLE001  # whatever the place of a token raises
                source = MSK_REGION if MSK_REGION in cluster.kafka else TOKEN_FILE
                yield ("clusters", at, "kafka", source), f"no token: {scrubbed(str(error))}", _REFUSED
                continue
        try:
            Consumer(config | {"log_level": 0}).close()
        except KafkaException as error:
            reason = scrubbed(error.args[0].str())
            named = next((name for name in sorted(cluster.kafka, key=len, reverse=True) if name in reason), None)
            place = ("clusters", at, "kafka") if named is None else ("clusters", at, "kafka", named)
            remedy = _GSSAPI if "GSSAPI" in reason else "see librdkafka's CONFIGURATION.md for what it knows"
            yield place, f"librdkafka refuses it: {reason.rstrip('.')}", remedy


def _probe_log_problems(settings: Settings) -> Iterator[_Found]:
    """Try out the place of the probe log; wait long enough for a slow object store."""
    from canary.extras import require_for_url  # noqa: PLC0415
    from canary.settings import UserError  # noqa: PLC0415
    from storage.probe_log.errors import ProbeLogError  # noqa: PLC0415
    from storage.probe_log.shipping import try_out  # noqa: PLC0415  # Arrow takes its time

    words = [f"{settings.probe_log.url} does not answer within {_PATIENCE_S:g} s", _PLACE]

    def tried() -> None:
        try:
            require_for_url(settings.probe_log.url, "the probe log")
            try_out(settings.probe_log.url)
        except ProbeLogError as error:
            words[0] = str(error)
        except UserError as error:
            words[:] = str(error).rsplit(": ", 1)
        else:
            words.clear()

    trying = threading.Thread(target=tried, daemon=True)  # one that hangs does not keep the process
    trying.start()
    trying.join(_PATIENCE_S)
    if words:
        yield ("probe_log", "url"), words[0], words[1]

"""What all commands share: --config, -v, the settings they lead to, the store, and how a command reports.

The two options may be given before or after the command's name; the later one counts. They are added to the signature
of each command here, so that no command has to repeat them.
"""

from __future__ import annotations

import functools
import inspect
import os
import typing
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from canary.cli import logging
from canary.errors import UserError

if TYPE_CHECKING:
    from canary.settings import ClusterSettings, Settings
    from storage.store import Store

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        envvar="CANARY_CONFIG",
        metavar="FILE",
        help="Settings in YAML. Each can be an environment variable, too, like CANARY_API__PORT=9000.",
        show_default=False,
    ),
]
VerboseOption = Annotated[
    int,
    typer.Option("--verbose", "-v", count=True, metavar="", help="Log more; -vv: libraries, too.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Report as JSON on stdout.", show_default=False)]


@dataclass(frozen=True, slots=True)
class Session:
    """The options that every command has. ``config`` is None for the defaults."""

    config: Path | None = None
    verbosity: int = 0


_UNREACHABLE: Final = 3

_SESSION: Final[ContextVar[Session]] = ContextVar("session", default=Session())  # noqa: B039  # it is frozen


def current() -> Session:
    """Return the options of this command line."""
    return _SESSION.get()


def load_settings() -> Settings:
    """Return the settings of --config and the environment; from here on their secrets stay out of the log.

    Raises:
        SettingsError: they cannot be used.
    """
    from canary.settings import load, secrets_of  # noqa: PLC0415  # pydantic takes its time

    settings = load(current().config, os.environ)
    logging.hide(secrets_of(settings))
    return settings


def open_store(settings: Settings) -> Store:
    """Return the store, connected.

    Raises:
        StoreError: it does not answer within store.timeout.
    """
    from storage.store import Store  # noqa: PLC0415  # SQLAlchemy takes its time

    return Store.connect(settings.store.url.get_secret_value(), timeout=settings.store.timeout)


def with_address(settings: Settings, cluster: ClusterSettings) -> ClusterSettings:
    """Return a cluster with its address; that of the embedded brokers is known once they run.

    Raises:
        UserError: they do not; exit status 3.
    """
    from canary.lab import Lab, LabError  # noqa: PLC0415

    if not cluster.embedded:
        return cluster
    try:
        lab = Lab.attach(settings.lab.directory)
    except LabError as error:
        raise UserError(str(error), _UNREACHABLE) from error
    if not lab.alive():
        raise UserError(f"the lab in {settings.lab.directory} does not run; start it: canary lab up", _UNREACHABLE)
    return cluster.at(lab.bootstrap)


def cluster_named(settings: Settings, name: str) -> ClusterSettings:
    """Return a cluster of the settings.

    Raises:
        UserError: there is none of this name.
    """
    found = next((one for one in settings.clusters if one.name == name), None)
    if found is None:
        raise UserError(f"there is no cluster {name}; there are: {', '.join(one.name for one in settings.clusters)}")
    return found


def seconds_of(words: str, option: str) -> float:
    """Return the seconds of a duration such as 30s or 5m, which an option has.

    Raises:
        typer.BadParameter: it is none.
    """
    from pydantic_core import PydanticCustomError  # noqa: PLC0415  # pydantic takes its time

    from canary.settings.fields import seconds  # noqa: PLC0415

    try:
        return seconds(words)
    except PydanticCustomError as error:
        raise typer.BadParameter(error.message(), param_hint=option) from None


def report(document: object, text: str, *, json: bool) -> None:
    """Print what a command found: as JSON, or as text."""
    typer.echo(dumps(document) if json else text)


def remember_global_options(config: ConfigOption = None, verbose: VerboseOption = 0) -> None:
    """Take the options before the command's name."""
    _SESSION.set(Session(config, verbose))
    logging.configure(verbose)


def with_shared_options(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that takes --config and -v, too."""
    hints = typing.get_type_hints(callback, include_extras=True)
    own = [one.replace(annotation=hints[one.name]) for one in inspect.signature(callback).parameters.values()]
    shared = [
        inspect.Parameter("config_file", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ConfigOption),
        inspect.Parameter("verbosity", inspect.Parameter.KEYWORD_ONLY, default=0, annotation=VerboseOption),
    ]

    @functools.wraps(callback)
    def command(*args: Any, config_file: Path | None, verbosity: int, **kwargs: Any) -> Any:
        before = current()
        _SESSION.set(Session(config_file or before.config, max(verbosity, before.verbosity)))
        logging.configure(current().verbosity)
        return callback(*args, **kwargs)

    everything = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + shared
    command.__signature__ = inspect.Signature(everything)  # type: ignore[attr-defined]  # what typer reads
    command.__annotations__ = {one.name: one.annotation for one in everything}
    return command

"""What all commands share: --config, -v, and the settings they lead to.

A command says ``settings = session.load_settings()``. The two options may stand before or after the command's name; the
later one counts. They are added to each command's signature here, so that no command has to repeat them.
"""

from __future__ import annotations

import functools
import inspect
import os
import typing
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from canary.cli import logging

if TYPE_CHECKING:
    from collections.abc import Callable

    from canary.settings import Settings

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        envvar="CANARY_CONFIG",
        metavar="FILE",
        help="Settings in YAML. Every one also as an environment variable, like CANARY_API__PORT=9000.",
        show_default=False,
    ),
]
VerboseOption = Annotated[
    int,
    typer.Option("--verbose", "-v", count=True, metavar="", help="Say more; -vv: libraries too.", show_default=False),
]
#: For commands that report: ``json: JsonOption = False``.
JsonOption = Annotated[bool, typer.Option("--json", help="Report as JSON on stdout.", show_default=False)]


@dataclass(frozen=True, slots=True)
class Session:
    """What stood on the command line for every command. ``config`` is None for the defaults."""

    config: Path | None = None
    verbosity: int = 0


_SESSION: Final[ContextVar[Session]] = ContextVar("session", default=Session())  # noqa: B039  # it is frozen


def current() -> Session:
    """Return what the command line said."""
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


def remember_global_options(config: ConfigOption = None, verbose: VerboseOption = 0) -> None:
    """Take what stands before the command's name."""
    _SESSION.set(Session(config, verbose))
    logging.configure(verbose)


def add_shared_options(app: typer.Typer) -> None:
    """Give every command of the app, and of the groups in it, --config and -v."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _with_shared_options(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_shared_options(group.typer_instance)


def _with_shared_options(callback: Callable[..., Any]) -> Callable[..., Any]:
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

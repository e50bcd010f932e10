"""``canary db upgrade|current``."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # noqa: TC001  # typer reads it

if TYPE_CHECKING:
    from storage.store import Store


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True)
    group.command("upgrade")(upgrade)
    group.command("current")(current)
    app.add_typer(group, name="db", help="The store's database schema.")


def upgrade(*, json: JsonOption = False) -> None:
    """Bring the database to this version's schema. `canary up` and `canary run` do it by themselves.

    Example: canary db upgrade --config canary.yaml
    """
    with _store() as store:
        store.upgrade()
        _report(store, json=json)


def current(*, json: JsonOption = False) -> None:
    """Say which schema the database has.

    Example: canary db current --json
    """
    with _store() as store:
        _report(store, json=json)


def _store() -> Store:
    from storage.store import Store  # noqa: PLC0415  # SQLAlchemy takes its time

    settings = session.load_settings()
    return Store.connect(settings.store.url.get_secret_value(), timeout=settings.store.timeout)


def _report(store: Store, *, json: bool) -> None:
    revision = store.current()
    typer.echo(json_module.dumps({"revision": revision}) if json else (revision or "empty: canary db upgrade makes it"))

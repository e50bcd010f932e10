"""``canary db upgrade|current``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it

if TYPE_CHECKING:
    from storage.store import Store


def upgrade(*, json: JsonOption = False) -> None:
    """Bring the database to this version's schema. `canary up` and `canary run` do it by themselves.

    Example: canary db upgrade --config canary.yaml
    """
    with session.open_store(session.load_settings()) as store:
        store.upgrade()
        _report(store, json=json)


def current(*, json: JsonOption = False) -> None:
    """Show which schema the database has.

    Example: canary db current --json
    """
    with session.open_store(session.load_settings()) as store:
        _report(store, json=json)


def _report(store: Store, *, json: bool) -> None:
    revision = store.current()
    session.report({"revision": revision}, revision or "empty: canary db upgrade makes it", json=json)

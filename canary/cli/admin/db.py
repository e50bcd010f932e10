"""``canary db upgrade|downgrade|current``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

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


def downgrade(
    revision: Annotated[
        str, typer.Argument(help="The schema of the older version: what its `canary db current` says.")
    ],
    *,
    json: JsonOption = False,
) -> None:
    """Take the database back to the schema of an older version, which keeps what that version knew.

    Stop everything of the canary first: a newer version that starts brings the schema up again. Sessions of browsers,
    ranges of losses (all but their first record) and what else is new since then are forgotten.

    Example: canary db downgrade 0004
    """
    with session.open_store(session.load_settings()) as store:
        store.downgrade(revision)
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

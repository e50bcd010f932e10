"""``canary token create|list|revoke``."""

from __future__ import annotations

import json as json_module
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # noqa: TC001  # typer reads it
from canary.errors import UserError

if TYPE_CHECKING:
    from storage.store import Store, Token


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True)
    group.command("create")(create)
    group.command("list")(list_tokens)
    group.command("revoke")(revoke)
    app.add_typer(group, name="token", help="Who may ask the API.")


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is; stands in the record of actions.")],
    *,
    scope: Annotated[
        Literal["read", "operate"], typer.Option(help="operate also acknowledges, resolves, plans.")
    ] = "read",
    expires: Annotated[str, typer.Option(metavar="DURATION", help="Like 30d, or never.")] = "90d",
    json: JsonOption = False,
) -> None:
    """Make a token and show it, this once: only its hash is kept.

    Example: canary token create grafana --scope read --expires 365d
    """
    now = time.time_ns()
    ends = None if expires == "never" else now + int(_seconds(expires) * 1e9)
    with _store() as store:
        store.upgrade()
        text, token = store.create_token(name, scope, now, ends)
        store.note_action("command line", "create-token", f"token {token.id}", now, {"name": name, "scope": scope})
    if token.expires_ns is not None:
        typer.echo(f"It expires at {_time(token.expires_ns)}.", err=True)
    typer.echo(json_module.dumps({**_shown(token), "token": text}) if json else text)


def list_tokens(*, json: JsonOption = False) -> None:
    """List the tokens, without their secrets, the revoked ones too.

    Example: canary token list
    """
    with _store() as store:
        rows = [_shown(token) for token in store.tokens()]
    if json:
        typer.echo(json_module.dumps(rows))
        return
    for row in rows:
        typer.echo(f"{row['id']}  {row['scope']:8}{row['state']:9}{row['expires_at'] or 'never':26}{row['name']}")


def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="From `canary token list`, or the token itself.")],
    *,
    json: JsonOption = False,
) -> None:
    """Close a token for ever; every API replica heeds it within ten seconds.

    Example: canary token revoke 0123456789abcdef
    """
    own = token_id.split("_")[1] if token_id.startswith("canary_") and token_id.count("_") >= 2 else token_id
    now = time.time_ns()
    with _store() as store:
        token = store.revoke_token(own, now)
        if token is None:
            _refuse(f"there is no token with the id {own}; see `canary token list`")
        store.note_action("command line", "revoke-token", f"token {own}", now, {"name": token.name})
    typer.echo(json_module.dumps(_shown(token)) if json else f"{own} opens nothing any more")


def _store() -> Store:
    from storage.store import Store  # noqa: PLC0415  # SQLAlchemy takes its time

    settings = session.load_settings()
    return Store.connect(settings.store.url.get_secret_value(), timeout=settings.store.timeout)


def _seconds(words: str) -> float:
    from pydantic_core import PydanticCustomError  # noqa: PLC0415

    from canary.settings.fields import seconds  # noqa: PLC0415

    try:
        found = seconds(words)
    except PydanticCustomError as error:
        _refuse(f"--expires: {error}; {(error.context or {})['remedy']}")
    if not 0 < found <= 100 * 365 * 86_400:
        _refuse("--expires: more than nothing, and at most a hundred years")
    return found


def _refuse(words: str) -> NoReturn:
    raise UserError(words, 2)


def _shown(token: Token) -> dict[str, str | None]:
    valid = token.valid(time.time_ns())
    return {
        "id": token.id,
        "name": token.name,
        "scope": token.scope,
        "state": "valid" if valid else "revoked" if token.revoked_ns else "expired",
        "created_at": _time(token.created_ns),
        "expires_at": None if token.expires_ns is None else _time(token.expires_ns),
    }


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns // 10**9, UTC).isoformat()

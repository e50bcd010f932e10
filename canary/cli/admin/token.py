"""``canary token create|list|revoke``."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it
from canary.errors import UserError

if TYPE_CHECKING:
    from storage.store.values import Token


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is, for the record of actions.")],
    *,
    scope: Annotated[
        Literal["read", "operate"], typer.Option(help="operate also acknowledges, resolves, plans.")
    ] = "read",
    cluster: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="It is for this cluster only; several times: for these.")
    ] = None,
    expires: Annotated[str, typer.Option(metavar="DURATION", help="Like 30d, or never.")] = "90d",
    json: JsonOption = False,
) -> None:
    """Make a token and show it, this once: only its hash is kept.

    Example: canary token create grafana --scope read --cluster prod-eu --expires 365d
    """
    now = time.time_ns()
    ends = None if expires == "never" else now + int(_seconds(expires) * 1e9)
    settings = session.load_settings()
    with session.open_store(settings) as store:
        store.upgrade()
        text, token = store.tokens.create(name, scope, now, ends, cluster or None)
        detail = {"name": name, "scope": scope} | ({"clusters": token.clusters} if token.clusters else {})
        store.actions.record("command line", "create-token", f"token {token.id}", now, detail)
        unknown = {*(token.clusters or ())} - {*store.retention.clusters(), *(one.name for one in settings.clusters)}
    if unknown:
        typer.echo(f"No cluster is called {' or '.join(sorted(unknown))} yet; see `canary token revoke`.", err=True)
    if token.expires_ns is not None:
        typer.echo(f"It expires at {_time(token.expires_ns)}.", err=True)
    session.report({**_shown(token), "token": text}, text, json=json)


def list_tokens(*, json: JsonOption = False) -> None:
    """List the tokens, without their secrets, the revoked ones too.

    Example: canary token list
    """
    with session.open_store(session.load_settings()) as store:
        rows = [_shown(token) for token in store.tokens.all()]
    lines = [_line(row) for row in rows]
    if json or lines:
        session.report(rows, "\n".join(lines), json=json)


def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="From `canary token list`, or the token itself.")],
    *,
    json: JsonOption = False,
) -> None:
    """Revoke a token for ever; every API replica refuses it within ten seconds.

    Example: canary token revoke 0123456789abcdef
    """
    own = token_id.split("_")[1] if token_id.startswith("canary_") and token_id.count("_") >= 2 else token_id
    now = time.time_ns()
    with session.open_store(session.load_settings()) as store:
        token = store.tokens.revoke(own, now)
        if token is None:
            raise UserError(f"there is no token with the id {own}; see `canary token list`")
        store.actions.record("command line", "revoke-token", f"token {own}", now, {"name": token.name})
    session.report(_shown(token), f"{own} opens nothing any more", json=json)


def _seconds(words: str) -> float:
    from pydantic_core import PydanticCustomError  # noqa: PLC0415

    from canary.settings.fields import seconds  # noqa: PLC0415

    try:
        found = seconds(words)
    except PydanticCustomError as error:
        raise UserError(f"--expires: {error}; {(error.context or {})['remedy']}") from None
    if not 0 < found <= 100 * 365 * 86_400:
        raise UserError("--expires must be more than nothing, and at most a hundred years")
    return found


def _line(row: dict[str, Any]) -> str:
    only = f" ({', '.join(row['clusters'])})" if row["clusters"] is not None else ""
    return f"{row['id']}  {row['scope']:8}{row['state']:9}{row['expires_at'] or 'never':26}{row['name']}{only}"


def _shown(token: Token) -> dict[str, Any]:
    valid = token.valid(time.time_ns())
    return {
        "id": token.id,
        "name": token.name,
        "scope": token.scope,
        "clusters": token.clusters,
        "state": "valid" if valid else "revoked" if token.revoked_ns else "expired",
        "created_at": _time(token.created_ns),
        "expires_at": None if token.expires_ns is None else _time(token.expires_ns),
    }


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns // 10**9, UTC).isoformat()

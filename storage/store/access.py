"""Tokens of the API, and the record of what people did, in one transaction of the caller's.

A token's text is ``canary_ID_SECRET``: the id finds the row, and of the secret (256 random bits) only the SHA-256 is
kept, so that whoever reads the database can open nothing with it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import uuid
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import insert, select, update

from storage.store.models import ActionRow, TokenRow
from storage.store.pages import Page, read_page
from storage.store.values import Action, Token

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from storage.store.values import Scope

TOKEN: Final = re.compile(r"canary_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


def create_token(
    connection: Connection, name: str, scope: Scope, at_ns: int, expires_ns: int | None
) -> tuple[str, Token]:
    """Mint a token; return its text and what is kept of it."""
    token_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    connection.execute(
        insert(TokenRow).values(
            id=token_id, name=name, scope=scope, digest=_digest(secret), created_ns=at_ns, expires_ns=expires_ns
        )
    )
    return f"canary_{token_id}_{secret}", Token(token_id, name, scope, at_ns, expires_ns, None)


def list_tokens(connection: Connection) -> list[Token]:
    """Return every token, oldest first."""
    return [_token(row) for row in connection.execute(select(TokenRow.__table__).order_by("created_ns", "id"))]


def verify(connection: Connection, text: str, at_ns: int) -> Token | None:
    """Return the token with this text if it is valid at this moment, or None."""
    match = TOKEN.fullmatch(text)
    if match is None:
        return None
    row = connection.execute(select(TokenRow.__table__).where(TokenRow.id == match[1])).one_or_none()
    if row is None or not hmac.compare_digest(row.digest, _digest(match[2])):
        return None
    token = _token(row)
    return token if token.valid(at_ns) else None


def revoke(connection: Connection, token_id: str, at_ns: int) -> Token | None:
    """Close a token; one that is closed stays as it is. None: there is none."""
    connection.execute(
        update(TokenRow).where(TokenRow.id == token_id, TokenRow.revoked_ns.is_(None)).values(revoked_ns=at_ns)
    )
    row = connection.execute(select(TokenRow.__table__).where(TokenRow.id == token_id)).one_or_none()
    return None if row is None else _token(row)


def note_action(
    connection: Connection, actor: str, action: str, target: str, at_ns: int, detail: Mapping[str, Any]
) -> Action:
    """Add to the record of what was done."""
    done = Action(uuid.uuid4().hex, at_ns, actor, action, target, dict(detail))
    connection.execute(
        insert(ActionRow).values(
            id=done.id, at_ns=at_ns, actor=actor, action=action, target=target, detail=dict(detail)
        )
    )
    return done


def list_actions(connection: Connection, cursor: str | None, limit: int) -> Page[Action]:
    """Return a page of the record, newest first."""
    query = select(ActionRow.__table__)
    keys = (ActionRow.at_ns, ActionRow.id)
    return read_page(connection, query, keys, cursor=cursor, limit=limit, make=lambda row: Action(**row._mapping))  # noqa: SLF001  # SQLAlchemy's public name


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _token(row: Any) -> Token:
    return Token(row.id, row.name, row.scope, row.created_ns, row.expires_ns, row.revoked_ns)

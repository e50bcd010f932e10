"""Tokens of the API, sessions of browsers, and the record of what people did.

A token's text is ``canary_ID_SECRET``: the id finds the row. Of the secret (256 random bits) only the SHA-256 is kept,
so reading the database does not give access to the API. The same is true of a session and its cookie.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from sqlalchemy import delete, insert, select, update

from canary.threads import system
from storage.store.cursors import Page
from storage.store.database import Repository, one_of
from storage.store.models import ACTIONS, SESSIONS, TOKENS
from storage.store.rows import value_of
from storage.store.values import Action, Scope, Session, Token

TOKEN: Final = re.compile(r"canary_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


class Tokens(Repository):
    """The tokens of the API."""

    def create(
        self,
        name: str,
        scope: Scope,
        at_ns: int,
        expires_ns: int | None = None,
        clusters: Collection[str] | None = None,
    ) -> tuple[str, Token]:
        """Mint a token, for some clusters or (None) all; return its text, which is not stored, and the token."""
        token = Token(system.token_hex(8), name, scope, at_ns, expires_ns, None, _listed(clusters))
        secret = _secret()
        with self._database.writing() as connection:
            connection.execute(insert(TOKENS).values(**asdict(token), digest=_digest(secret)))
        return f"canary_{token.id}_{secret}", token

    def all(self) -> list[Token]:
        """Return every token, oldest first, the revoked ones too."""
        return self._all(select(TOKENS).order_by("created_ns", "id"), _token)

    def verify(self, text: str, at_ns: int) -> Token | None:
        """Return the token with this text; None if it is unknown, revoked or expired."""
        match = TOKEN.fullmatch(text)
        if match is None:
            return None
        with self._database.reading() as connection:
            row = connection.execute(select(TOKENS).where(TOKENS.c.id == match[1])).one_or_none()
        if row is None or not hmac.compare_digest(row.digest, _digest(match[2])):
            return None
        token = _token(row)
        return token if token.valid(at_ns) else None

    def revoke(self, token_id: str, at_ns: int) -> Token | None:
        """Revoke a token; one that is revoked already keeps its time. None if there is none."""
        this = TOKENS.c.id == token_id
        with self._database.writing() as connection:
            connection.execute(update(TOKENS).where(this, TOKENS.c.revoked_ns.is_(None)).values(revoked_ns=at_ns))
            return one_of(connection, select(TOKENS).where(this), _token)


class Sessions(Repository):
    """The browsers that have signed in."""

    def begin(
        self, name: str, scope: Scope, clusters: Collection[str] | None, at_ns: int, expires_ns: int
    ) -> tuple[str, Session]:
        """Begin a session; return the text of its cookie, which is not stored, and the session.

        Sessions that have expired are deleted.
        """
        text = _secret()
        session = Session(_digest(text), name, scope, _listed(clusters), at_ns, expires_ns)
        with self._database.writing() as connection:
            connection.execute(delete(SESSIONS).where(SESSIONS.c.expires_ns <= at_ns))
            connection.execute(insert(SESSIONS).values(asdict(session)))
        return text, session

    def verify(self, text: str, at_ns: int) -> Session | None:
        """Return the session with this cookie; None if it is unknown, ended or expired."""
        valid = SESSIONS.c.id == _digest(text), SESSIONS.c.expires_ns > at_ns
        return self._one(
            select(SESSIONS).where(*valid), lambda row: value_of(Session, row, clusters=_listed(row.clusters))
        )

    def end(self, session_id: str) -> None:
        """End a session; its cookie opens nothing any more."""
        with self._database.writing() as connection:
            connection.execute(delete(SESSIONS).where(SESSIONS.c.id == session_id))


class Actions(Repository):
    """What people did through the API or the command line; rows are only added."""

    def record(self, actor: str, action: str, target: str, at_ns: int, detail: Mapping[str, Any]) -> Action:
        """Add an action."""
        done = Action(system.token_hex(16), at_ns, actor, action, target, dict(detail))
        with self._database.writing() as connection:
            connection.execute(insert(ACTIONS).values(asdict(done)))
        return done

    def page(self, cursor: str | None = None, limit: int = 100) -> Page[Action]:
        """Return a page of actions, newest first."""
        return self._page(select(ACTIONS), ACTIONS.c.at_ns, partial(value_of, Action), cursor, limit)


def _token(row: Any) -> Token:
    return value_of(Token, row, clusters=_listed(row.clusters))


def _listed(clusters: Collection[str] | None) -> tuple[str, ...] | None:
    return None if clusters is None else tuple(sorted(clusters))


def _secret() -> str:
    return base64.urlsafe_b64encode(system.random_bytes(32)).rstrip(b"=").decode()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()

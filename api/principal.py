"""The sender of a request, and which clusters it may see."""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from starlette.requests import HTTPConnection

NOBODY: Final = "anonymous"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing: they need the scope read, all others operate."""
OPEN: Final = "/healthz"
"""What is answered without a token, whatever the settings say."""
SIGNED_IN: Final = ContextVar("signed_in", default="")
"""The name of the person whose browser's session sent this request; "": there is no session. For pages."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request: ``name`` is for the record of actions, ``operate`` allows changes.

    ``clusters``: the only ones that exist for it; None: all. `api.state` narrows the store and the probe log to them.
    """

    name: str
    operate: bool
    clusters: frozenset[str] | None = None


def principal_of(request: HTTPConnection) -> Principal:
    """Return the sender of a request; where no token is needed, one that may do everything."""
    found: Principal = request.scope.get("canary.principal") or Principal(NOBODY, operate=True)
    return found

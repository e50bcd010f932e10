"""The OpenAPI document: what FastAPI makes of the routes, and what each of them needs of its sender."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from api.principal import OPEN, SAFE

_SCHEMES: Final = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the canary (`canary token create`), or a JWT of the identity provider. Programs "
        "that know only Basic give it as the password.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "__Host-canary-session",
        "description": "The cookie of a browser that has signed in at the identity provider (api.auth.oidc.login); "
        "it is called canary-session where the pages are served without TLS. It changes something from a page of the "
        "canary only.",
    },
}


def secured(made: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Return the function that makes the document with who may do what: GET needs the scope read, others operate."""
    whole: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        if not whole:
            found = made()
            found.setdefault("components", {})["securitySchemes"] = _SCHEMES
            for path, method, operation in operations(found):
                _say(path, method, operation)
            whole.update(found)
        return whole

    return document


def _say(path: str, method: str, operation: dict[str, Any]) -> None:
    if path == OPEN:
        operation["security"] = []
        words = "Needs no token."
    else:
        scope = "read" if method.upper() in SAFE else "operate"
        operation["security"] = [{name: [scope]} for name in _SCHEMES]
        words = f"Needs the scope {scope}."
    operation["description"] = f"{operation.get('description', '')}\n\n{words}".strip()


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield path, method and operation of each route."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def body_of(document: Mapping[str, Any], operation: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the name and the schema of the JSON that an operation takes; None: it takes none."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return None
    name = content["schema"]["$ref"].rsplit("/", 1)[1]
    return name, document["components"]["schemas"][name]

"""The application: routes, errors and middleware."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles

from api import errors, health
from api.access.auth import Authentication
from api.access.headers import security_headers
from api.access.login import Login, LoginError
from api.knowledge.writing import Writing
from api.metrics import collect
from api.openapi import secured
from api.pages import clusters as cluster_pages
from api.pages import incident, incident_list, login, records, runbooks, status
from api.pages.login import Entrance
from api.pages.rendering import refused
from api.principal import Principal
from api.problems import documented
from api.responses import Answers, heads
from api.rest import (
    actions,
    clusters,
    exports,
    incidents,
    maintenance,
    probes,
    reconciliations,
    stream,
    topology,
    unseen,
    violations,
    watched,
)
from api.state import State
from api.store_calls import Calls
from canary.extras import require_for_url
from canary.settings import Settings
from canary.settings.serving import ApiSettings, OidcSettings
from storage.probe_log.errors import NothingThereError, ProbeLogError
from storage.probe_log.windows import WindowTooLargeError
from storage.store.cursors import BadCursorError
from storage.store.errors import AllClustersError, BadValueError, StoreError
from storage.store.repositories.access import TOKEN
from storage.store.repositories.retention import StillProbedError
from storage.store.store import Store
from storage.store.values import Session, Token

if TYPE_CHECKING:
    from api.access.oidc import Provider
    from storage.probe_log.reading import ProbeLogReader

DESCRIPTION = """Does Kafka keep the writes that it acknowledged? Numbered probes are written, read back, remembered and
judged; this is what is known. Errors are problem documents (RFC 9457); lists answer `{"items", "next_cursor"}` and go
on with `?cursor=<next_cursor>`; HEAD is answered wherever GET is; JSON answers carry an ETag (send it back as
If-None-Match: 304 means unchanged). With auth on, send `Authorization: Bearer TOKEN`: reading needs the scope read,
changing something operate. Times are RFC 3339 in UTC; numbers of identities and offsets have up to 63 bits."""


def create_app(settings: Settings, store: Store, probe_log: ProbeLogReader | None = None) -> FastAPI:
    """Return the application that answers from ``store`` and from the probe log of ``settings``.

    Nothing is opened or started here; ``probe_log`` may be given instead of the one at settings.probe_log.url.
    """
    app = FastAPI(
        title="Kafka durability canary",
        summary="Finds out, all the time, whether Kafka keeps the writes it acknowledged.",
        description=DESCRIPTION,
        version=version("kafka-durability-canary"),
        docs_url=None,
        redoc_url=None,
        routes=list(_routes()),
    )
    calls = Calls(
        "store",
        (StoreError,),
        refusals=(AllClustersError, BadCursorError, BadValueError, StillProbedError),
        timeout=settings.store.timeout + 1,
    )
    app.state.canary = State(
        store=store,
        probe_log=_late_probe_log(settings.probe_log.url) if probe_log is None else lambda: probe_log,
        calls=calls,
        log_calls=_log_calls(),
        writing=Writing(store),
        configured=tuple(cluster.name for cluster in settings.clusters if not cluster.embedded),
        api=settings.api,
        notified=tuple(one.name for one in settings.notify if one.is_told),
        called=tuple(one.name for one in settings.notify if not one.is_told),
        scheduled=lambda: store.leases.scheduled(),  # noqa: PLW0108  # what makes documents has no store
    )
    errors.install(app, refused)
    app.openapi = secured(app.openapi)  # type: ignore[method-assign]  # FastAPI's own way to extend the document
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    app.add_middleware(Answers, keep_s=settings.api.answers_cache, monotonic=time.monotonic)
    app.add_middleware(heads)
    provider = None if settings.api.auth.oidc is None else _provider(settings.api.auth.oidc)
    app.state.entrance = entrance = None if provider is None else _entrance(settings.api, provider)

    async def signed_in(cookie: str) -> Principal | None:
        session = await calls(store.sessions.verify, cookie, time.time_ns())
        return None if session is None else _principal(session)

    app.add_middleware(
        Authentication,
        settings=settings.api,
        verify=_verifier(provider, store, calls),
        record=lambda actor, target, detail: calls(
            store.actions.record, actor, "refused", target, time.time_ns(), detail
        ),
        monotonic=time.monotonic,
        answer=login.answer,
        login=None if entrance is None else entrance.login,
        signed_in=signed_in,
    )
    app.add_middleware(security_headers)
    return app


def _log_calls() -> Calls:
    refusals = NothingThereError, WindowTooLargeError
    return Calls("probe log", (ProbeLogError, OSError), refusals=refusals, threads=4, timeout=20.0)


def _late_probe_log(url: str) -> Callable[[], ProbeLogReader]:
    """Return a function that opens the probe log at its first call: that doubles the memory of the process.

    Raises:
        UserError: the URL needs an extra that is not installed.
    """
    require_for_url(url, "probe_log.url")

    @cache
    def opened() -> ProbeLogReader:
        from storage.probe_log.reading import ProbeLogReader  # noqa: PLC0415  # loads Arrow

        return ProbeLogReader(url)

    return opened


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """Return the routes, analysed once in a process: FastAPI takes 0.1 s for it."""
    every = APIRouter(generate_unique_id_function=_operation_id)
    rest = APIRouter(prefix="/api/v1", responses=documented(401, 403, 421, 429))
    for module in (
        clusters,
        violations,
        incidents,
        exports,
        maintenance,
        probes,
        unseen,
        topology,
        watched,
        reconciliations,
        actions,
        stream,
    ):
        rest.include_router(module.router)
    every.include_router(rest)
    for module in (health, collect, status, cluster_pages, incident_list, incident, records, runbooks, login):
        every.include_router(module.router)
    return tuple(every.routes)


def _verifier(provider: Provider | None, store: Store, calls: Calls) -> Callable[[str], Awaitable[Principal | None]]:
    """Return the function from a credential (a token of ours, or a JWT of the identity provider) to its principal."""
    verify_jwt = None if provider is None else _jwt_verifier(provider)

    async def verify(credential: str) -> Principal | None:
        if credential.startswith("canary_"):
            if TOKEN.fullmatch(credential) is None:
                return None
            token = await calls(store.tokens.verify, credential, time.time_ns())
            return None if token is None else _principal(token)
        return None if verify_jwt is None else await verify_jwt(credential)

    return verify


def _jwt_verifier(provider: Provider) -> Callable[[str], Awaitable[Principal | None]]:
    calls = _provider_calls(2)
    return lambda credential: calls(provider.principal, credential)


def _principal(known: Token | Session) -> Principal:
    clusters = None if known.clusters is None else frozenset(known.clusters)
    return Principal(known.name, known.scope == "operate", clusters)


def _provider(settings: OidcSettings) -> Provider:
    from api.access.oidc import Provider  # noqa: PLC0415  # its libraries take 15 MiB

    return Provider(settings, now=time.time, monotonic=time.monotonic)


def _provider_calls(threads: int) -> Calls:
    from api.access.oidc import ProviderError  # noqa: PLC0415  # as above

    return Calls("identity provider", (ProviderError,), refusals=(LoginError,), threads=threads, timeout=11.0)


def _entrance(settings: ApiSettings, provider: Provider) -> Entrance | None:
    """Return what signs browsers in; None if that is not set."""
    oidc, address = settings.auth.oidc, settings.address
    if oidc is None or not oidc.login or address is None:
        return None
    return Entrance(Login(provider, oidc, address, now=time.time), _provider_calls(4))


def _operation_id(route: APIRoute) -> str:
    return "_".join([*(str(tag) for tag in route.tags[:1]), route.name])

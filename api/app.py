"""The application: routes, errors, headers."""

from __future__ import annotations

import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from starlette.staticfiles import StaticFiles

from api import (
    actions,
    audit,
    clusters,
    exports,
    health,
    incident_list,
    incident_pages,
    incidents,
    maintenance,
    metrics,
    pages,
    probes,
    problems,
    reconciliations,
    runbooks,
    stream,
    topology,
    unseen,
    violations,
)
from api.answers import Answers
from api.auth import Attempt, Authentication, Principal
from api.calls import Calls
from api.probe_log import LateProbeLog
from api.security import SecurityHeaders
from api.state import State
from storage.probe_log.errors import NothingThereError, ProbeLogError
from storage.probe_log.windows import WindowTooLargeError
from storage.store.access import TOKEN
from storage.store.errors import BadValueError, StoreError
from storage.store.pages import BadCursorError
from storage.store.retention import StillProbedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi.routing import APIRoute
    from starlette.routing import BaseRoute

    from api.ports import ProbeLog, Store
    from canary.settings import Settings
    from canary.settings.serving import ApiSettings, OidcSettings

DESCRIPTION = """Does Kafka keep the writes that it acknowledged? Numbered probes are written, read back, remembered and
judged; this is what is known. Errors are problem documents (RFC 9457); lists answer `{"items", "next_cursor"}` and go
on with `?cursor=<next_cursor>`; JSON answers carry an ETag (send it back as If-None-Match: 304 means unchanged). With
auth on, send `Authorization: Bearer TOKEN`: reading needs the scope read, changing something operate. Times are RFC
3339 in UTC; numbers of identities and offsets have up to 63 bits."""


def create_app(settings: Settings, store: Store, probe_log: ProbeLog | None = None) -> FastAPI:
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
    app.state.canary = State(
        store=store,
        probe_log=probe_log or LateProbeLog(settings.probe_log.url),
        calls=Calls(
            "store",
            (StoreError,),
            refusals=(BadCursorError, BadValueError, StillProbedError),
            timeout=settings.store.timeout + 1,
        ),
        log_calls=Calls(
            "probe log",
            (ProbeLogError, OSError),
            refusals=(NothingThereError, WindowTooLargeError),
            threads=4,
            timeout=20.0,
        ),
        configured=tuple(cluster.name for cluster in settings.clusters if not cluster.embedded),
        api=settings.api,
    )
    problems.install(app)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    app.add_middleware(Answers, keep_s=settings.api.answers_cache, monotonic=time.monotonic)
    app.add_middleware(
        Authentication,
        settings=settings.api,
        verify=_verifier(settings.api, store, app.state.canary.calls),
        record=_recorder(store, app.state.canary.calls),
        monotonic=time.monotonic,
    )
    app.add_middleware(SecurityHeaders)
    return app


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """Return what all applications of a process share: FastAPI takes 0.1 s to analyse the endpoints."""
    every = APIRouter(generate_unique_id_function=_operation_id)
    rest = APIRouter(prefix="/api/v1", responses=problems.GUARDED)
    for module in (
        clusters,
        violations,
        incidents,
        exports,
        maintenance,
        probes,
        unseen,
        topology,
        audit,
        reconciliations,
        actions,
        stream,
    ):
        rest.include_router(module.router)
    every.include_router(rest)
    for module in (health, metrics, pages, incident_list, incident_pages, runbooks):
        every.include_router(module.router)
    return tuple(every.routes)


def _verifier(settings: ApiSettings, store: Store, calls: Calls) -> Callable[[str], Awaitable[Principal | None]]:
    """Return what tells whose a credential is: a token of ours, else a JWT of the identity provider."""
    verify_jwt = None if settings.auth.oidc is None else _jwt_verifier(settings.auth.oidc)

    async def verify(credential: str) -> Principal | None:
        if credential.startswith("canary_"):
            if TOKEN.fullmatch(credential) is None:
                return None
            token = await calls(store.token, credential, time.time_ns())
            return None if token is None else Principal(token.name, token.scope == "operate")
        return None if verify_jwt is None else await verify_jwt(credential)

    return verify


def _recorder(store: Store, calls: Calls) -> Callable[[Attempt], Awaitable[object]]:
    """Return what puts a failed attempt into the record of actions."""

    async def record(attempt: Attempt) -> object:
        return await calls(store.note_action, attempt.actor, "refused", attempt.target, time.time_ns(), attempt.detail)

    return record


def _jwt_verifier(settings: OidcSettings) -> Callable[[str], Awaitable[Principal | None]]:
    from api.oidc import Provider, ProviderError  # noqa: PLC0415  # its libraries take 15 MiB, for those who use it

    provider = Provider(settings, now=time.time, monotonic=time.monotonic)
    calls = Calls("identity provider", (ProviderError,), threads=2, timeout=11.0)

    async def verify(credential: str) -> Principal | None:
        return await calls(provider.principal, credential)

    return verify


def _operation_id(route: APIRoute) -> str:
    return "_".join([*(str(tag) for tag in route.tags[:1]), route.name])

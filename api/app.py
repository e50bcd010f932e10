"""The application: routes, errors, headers."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from starlette.staticfiles import StaticFiles

from api import clusters, health, incidents, metrics, pages, probes, problems, reconciliations, violations
from api.calls import Calls
from api.security import SecurityHeaders
from api.state import State
from storage.probe_log import ProbeLogReader
from storage.probe_log.errors import ProbeLogError
from storage.store.errors import StoreError
from storage.store.pages import BadCursorError

if TYPE_CHECKING:
    from fastapi.routing import APIRoute

    from api.ports import ProbeLog, Store
    from canary.settings import Settings

DESCRIPTION = """Does Kafka keep the writes that it acknowledged? Numbered probes are written, read back, remembered and
judged; this is what is known. Errors are problem documents (RFC 9457); lists answer `{"items", "next_cursor"}` and go
on with `?cursor=<next_cursor>`; times are RFC 3339 in UTC; numbers of identities and offsets have up to 63 bits."""


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
        generate_unique_id_function=_operation_id,
    )
    app.state.canary = State(
        store=store,
        probe_log=probe_log or ProbeLogReader(settings.probe_log.url),
        calls=Calls("store", (StoreError,), refusals=(BadCursorError,), timeout=settings.store.timeout + 1),
        log_calls=Calls("probe log", (ProbeLogError, OSError), threads=4, timeout=20.0),
        configured=tuple(cluster.name for cluster in settings.clusters if not cluster.embedded),
    )
    problems.install(app)
    rest = APIRouter(prefix="/api/v1")
    for module in (clusters, violations, incidents, probes, reconciliations):
        rest.include_router(module.router)
    app.include_router(rest)
    for module in (health, metrics, pages):
        app.include_router(module.router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    app.add_middleware(SecurityHeaders)
    return app


def _operation_id(route: APIRoute) -> str:
    return "_".join([*(str(tag) for tag in route.tags[:1]), route.name])

"""One reading of the store for all who ask the same at one moment; and never an answer from before one's own change."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from api import create_app
from api.responses import Answers
from tests.api.serving import Client, ProbeLogFake, lost, settings, view

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from storage.store import Store


pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Backend:
    """Answers with how often it was asked, when it may."""

    def __init__(self, kind: bytes = b"application/json", status: int = 200) -> None:
        self.asked = 0
        self.came: asyncio.Queue[int] = asyncio.Queue()
        self.may = asyncio.Event()
        self.may.set()
        self._head = {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]}

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(60):
            while await self.came.get() < times:
                pass

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        self.asked += 1
        number = self.asked
        self.came.put_nowait(number)
        await send(dict(self._head))
        await self.may.wait()
        await send({"type": "http.response.body", "body": str(number).encode()})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def asking(backend: Any, clock: Clock) -> httpx.AsyncClient:
    app = Answers(backend, keep_s=0.25, monotonic=clock)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://canary")


async def test_many_at_once_cost_one_reading_and_later_ones_another() -> None:
    backend, clock = Backend(), Clock()
    async with asking(backend, clock) as client:
        backend.may.clear()
        waiting = [asyncio.create_task(client.get("/api/v1/x?a=1")) for _ in range(50)]
        await backend.until_asked(1)
        backend.may.set()
        assert {answer.text for answer in await asyncio.gather(*waiting)} == {"1"}
        assert (await client.get("/api/v1/x?a=2")).text == "2"
        clock.now = 0.2
        assert (await client.get("/api/v1/x?a=1")).text == "1"
        clock.now = 0.25
        assert (await client.get("/api/v1/x?a=1")).text == "3"


async def test_after_a_change_nothing_from_before_is_shown() -> None:
    backend, clock = Backend(), Clock()
    async with asking(backend, clock) as client:
        backend.may.clear()
        before = asyncio.create_task(client.get("/api/v1/x"))
        await backend.until_asked(1)
        changing = asyncio.create_task(client.post("/api/v1/x"))
        await backend.until_asked(2)
        after = asyncio.create_task(client.get("/api/v1/x"))
        await backend.until_asked(3)
        backend.may.set()
        assert (await before).text == "1"
        assert (await changing).text == "2"
        assert (await after).text == "3"
        assert (await client.get("/api/v1/x")).text in {"3", "4"}


@pytest.mark.parametrize(("kind", "status"), [(b"text/event-stream", 200), (b"application/problem+json", 503)])
async def test_what_is_no_answer_to_share_is_asked_by_everybody(kind: bytes, status: int) -> None:
    backend, clock = Backend(kind, status), Clock()
    async with asking(backend, clock) as client:
        backend.may.clear()
        waiting = [asyncio.create_task(client.get("/api/v1/stream")) for _ in range(3)]
        await backend.until_asked(3)
        backend.may.set()
        assert {answer.text for answer in await asyncio.gather(*waiting)} == {"1", "2", "3"}


async def test_one_who_goes_away_does_not_take_the_others_along() -> None:
    backend, clock = Backend(), Clock()
    async with asking(backend, clock) as client:
        backend.may.clear()
        first = asyncio.create_task(client.get("/api/v1/x"))
        await backend.until_asked(1)
        second = asyncio.create_task(client.get("/api/v1/x"))
        await asyncio.sleep(0)
        first.cancel()
        backend.may.set()
        assert (await second).status_code == 200


def test_an_acknowledgement_shows_at_once(store: Store) -> None:
    store.views.save("prod", "canary-0", time.time_ns(), view())
    store.violations.record("prod", [lost(1)])
    client = Client(create_app(settings("prod", answers_cache="5s"), store, ProbeLogFake()))
    listed = client.get("/api/v1/violations").json()["items"][0]
    assert listed["state"] == "open"
    store.violations.record("prod", [lost(2)])
    assert len(client.get("/api/v1/violations").json()["items"]) == 1  # kept
    assert client.post(f"/api/v1/violations/{listed['id']}/acknowledge", {"note": "me"}).status_code == 200
    states = {row["id"]: row["state"] for row in client.get("/api/v1/violations").json()["items"]}
    assert (states[listed["id"]], len(states)) == ("acknowledged", 2)
    tag = client.get("/api/v1/violations").headers["etag"]
    assert client.ask("GET", "/api/v1/violations", headers={"If-None-Match": f'"x", {tag}'}).status_code == 304

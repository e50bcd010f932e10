"""Signing in and out: where the browser leaves for the identity provider, where it comes back, and what it is told."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse
from starlette.responses import Response

from api.access.auth import Refusal, RefusedError
from api.access.login import ATTEMPT_S, Login, LoginError, attempt_of, place_of
from api.access.record import note
from api.pages.rendering import refused, render
from api.principal import Principal
from api.problems import ProblemError, problem
from api.state import State
from api.store_calls import Calls, UnavailableError
from storage.store.values import Scope

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Entrance:
    """What signs browsers in, and the calls by which it waits for the provider."""

    login: Login
    calls: Calls


@router.get("/login")
async def begin(request: Request, place: Annotated[str, Query(alias="next")] = "/") -> Response:
    """Send the browser to the provider, which sends it back to /login/callback; ``next``: the path to go on to."""
    entrance = _entrance(request)
    login = entrance.login
    try:
        address, attempt = await entrance.calls(login.begin, place)
    except (LoginError, UnavailableError) as error:
        raise _refused(error) from None
    answer = RedirectResponse(address, 303)
    _set_cookie(answer, login, login.attempt_cookie(attempt.state), attempt.cookie(), ATTEMPT_S)
    return answer


@router.get("/login/callback")
async def callback(request: Request) -> Response:
    """Let a person in whom the provider has sent back; the browser gets the cookie of a new session."""
    entrance, state = _entrance(request), _state(request)
    login = entrance.login
    named = login.attempt_cookie(request.query_params.get("state", ""))
    attempt = attempt_of(request.cookies.get(named))
    try:
        principal, left_s = await entrance.calls(login.finish, attempt, request.query_params)
    except (LoginError, UnavailableError) as error:
        raise _refused(error) from None
    request.scope["canary.principal"] = principal
    await note(request, "sign-in", login.issuer)
    scope: Scope = "operate" if principal.operate else "read"
    now = state.now_ns()
    ends = now + int(left_s * 1e9)
    text, _ = await state.calls(state.store.sessions.begin, principal.name, scope, principal.clusters, now, ends)
    answer = RedirectResponse(place_of(attempt.place if attempt else "/"), 303)
    _set_cookie(answer, login, login.session_cookie, text, int(left_s))
    _set_cookie(answer, login, named, "", 0)
    return answer


@router.post("/logout")
async def leave(request: Request) -> Response:
    """End the session of this browser: its cookie opens nothing any more, at any replica."""
    login, state = _entrance(request).login, _state(request)
    cookie = request.cookies.get(login.session_cookie, "")
    session = await state.calls(state.store.sessions.verify, cookie, state.now_ns())
    if session is not None:
        request.scope["canary.principal"] = Principal(session.name, operate=session.scope == "operate")
        await note(request, "sign-out", login.issuer)
        await state.calls(state.store.sessions.end, session.id)
    answer = render("login.html", refresh=0, title="Signed out", sentence="You have signed out of the canary.")
    _set_cookie(answer, login, login.session_cookie, "", 0)
    return answer


def answer(request: Request, refusal: Refusal) -> Response:
    """Return the answer of a refused request: a page for a browser that asks for one, else a problem document."""
    if request.scope["path"] in {"/login", "/login/callback"} and refusal.status != 421:
        return render("login.html", refusal.status, refresh=0, title="Not signed in", sentence=refusal.detail)
    page = refused(request, refusal.status, HTTPStatus(refusal.status).phrase, refusal.detail, refusal.headers)
    return problem(request, refusal.status, refusal.detail, headers=refusal.headers) if page is None else page


def _refused(error: LoginError | UnavailableError) -> RefusedError:
    if isinstance(error, LoginError):
        return RefusedError(Refusal(error.status, str(error), {}))
    return RefusedError(Refusal(503, f"The {error.what} does not answer; sign in again in a while.", {}))


def _entrance(request: Request) -> Entrance:
    found: Entrance | None = request.app.state.entrance
    if found is None:
        raise ProblemError(404, "Nobody signs in here: api.auth.oidc.login is not set.")
    return found


def _state(request: Request) -> State:
    """Return the state of the application; the sessions are of no cluster, and nothing else is asked of it here."""
    found: State = request.app.state.canary
    return found


def _set_cookie(answer: Response, login: Login, name: str, value: str, seconds: int) -> None:
    answer.set_cookie(name, value, max_age=seconds, secure=login.secure, httponly=True, samesite="lax")

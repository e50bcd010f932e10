"""A browser signs in at an identity provider: who gets in, who does not, and how long."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from joserfc import jwk
from sqlalchemy import update
from structlog.testing import capture_logs

from api import create_app
from api.access.login import Attempt, attempt_of, place_of
from canary.settings.serving import ApiSettings
from storage.store.models import SESSIONS
from tests.api.serving import ProbeLogFake, lost, settings, view
from tests.support.identity_provider import CLIENT, SECRET, IdentityProvider, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi import FastAPI

    from storage.store import Store

ADDRESS = "https://canary.example"
PAGE = {"Accept": "text/html,application/xhtml+xml"}
SESSION = "__Host-canary-session"


@pytest.fixture(scope="module")
def running() -> Iterator[IdentityProvider]:
    with serving() as provider:
        yield provider


@pytest.fixture
def provider(running: IdentityProvider) -> IdentityProvider:
    """The provider as it is when nothing misbehaves."""
    running.claims, running.unsigned, running.signing_key, running.answer = {}, False, None, None
    running.description, running.asked, running.given = {}, [], []
    return running


@dataclass(slots=True)
class Browser:
    """Keeps cookies as a browser does, follows nothing by itself, and says where its requests come from."""

    app: FastAPI
    cookies: dict[str, str] = field(default_factory=dict)
    base: str = ADDRESS

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        own = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} | PAGE

        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=self.base) as client:
                return await client.request(method, path, headers=own | (headers or {}))

        answer = asyncio.run(asked())
        for name, value in answer.cookies.items():
            self.cookies[name] = value
        for line in answer.headers.get_list("set-cookie"):
            if "Max-Age=0" in line:
                self.cookies.pop(line.partition("=")[0], None)
        return answer

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.ask("GET", path, headers)

    def post(self, path: str, **headers: str) -> httpx.Response:
        return self.ask("POST", path, headers)

    def leave_for(self, path: str = "/") -> str:
        """Ask for a page without a session; return the address of the provider to which that leads."""
        sent = self.get(path)
        assert sent.status_code == 303
        assert sent.headers["location"].startswith(f"{self.base}/login?next=")
        at_provider = self.get(sent.headers["location"])
        assert at_provider.status_code == 303
        return at_provider.headers["location"]

    def sign_in(self, provider: IdentityProvider, path: str = "/") -> httpx.Response:
        return self.get(provider.agree(self.leave_for(path)))


def application(store: Store, provider: IdentityProvider, url: str = ADDRESS, **more: Any) -> FastAPI:
    store.views.save("prod", "canary-0", time.time_ns(), view())
    told = {"issuer": provider.issuer, "audience": "canary", "client_id": CLIENT, "login": True} | more
    auth = {"required": "always", "oidc": told}
    return create_app(settings("prod", url=url, hosts=("canary.example",), auth=auth), store, ProbeLogFake())


@pytest.fixture
def browser(store: Store, provider: IdentityProvider) -> Browser:
    return Browser(application(store, provider))


def test_a_browser_signs_in_and_is_where_it_wanted_to_be(
    browser: Browser, provider: IdentityProvider, store: Store
) -> None:
    back = browser.sign_in(provider, "/incidents?cluster=prod")
    assert (back.status_code, back.headers["location"]) == (303, "/incidents?cluster=prod")
    shown = browser.get("/")
    assert shown.status_code == 200
    assert "Sign out ann" in shown.text
    assert browser.get("/api/v1/clusters", Accept="*/*").status_code == 200
    (action,) = store.actions.page().items
    assert (action.actor, action.action, action.target) == ("ann", "sign-in", provider.issuer)


def test_what_is_asked_of_the_provider_is_the_code_flow_with_pkce(browser: Browser, provider: IdentityProvider) -> None:
    asked = {name: one for name, (one,) in parse_qs(urlsplit(browser.leave_for()).query).items()}
    assert asked.pop("state") != asked.pop("nonce")
    assert len(asked.pop("code_challenge")) == 43
    assert asked == {
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": f"{ADDRESS}/login/callback",
        "scope": "openid profile email",
        "code_challenge_method": "S256",
    }
    browser.sign_in(provider)
    ((form, authorization),) = provider.asked
    assert (form["grant_type"], form["client_id"], authorization) == ("authorization_code", CLIENT, "")


@pytest.mark.parametrize("methods", [None, ["client_secret_post"]])
def test_a_client_with_a_secret_proves_itself(
    store: Store, provider: IdentityProvider, tmp_path: Path, methods: list[str] | None
) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    provider.description = {} if methods is None else {"token_endpoint_auth_methods_supported": methods}
    app = application(store, provider, client_secret_file=str(tmp_path / "secret"))
    assert Browser(app).sign_in(provider).status_code == 303
    ((form, authorization),) = provider.asked
    if methods is None:
        words = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        assert words == f"{CLIENT}:a+secret%2Fwith%2Bsigns"
    else:
        assert (form["client_secret"], authorization) == (SECRET, "")
    (tmp_path / "secret").unlink()
    refused = Browser(app).sign_in(provider)
    assert (refused.status_code, "client_secret_file" in refused.text) == (503, True)


def test_the_cookie_is_for_this_host_alone_and_no_script_reads_it(
    browser: Browser, provider: IdentityProvider, store: Store
) -> None:
    answer = browser.sign_in(provider)
    (line,) = (one for one in answer.headers.get_list("set-cookie") if one.startswith(SESSION))
    said = {part.strip().lower() for part in line.split(";")[1:]}
    (age,) = (part for part in said if part.startswith("max-age="))
    assert said - {age} == {"httponly", "secure", "samesite=lax", "path=/"}
    assert 200 < int(age.partition("=")[2]) <= 300
    with store._database.reading() as connection:
        kept = str(connection.exec_driver_sql("SELECT * FROM sessions").all())
    assert browser.cookies[SESSION] not in kept
    assert not any("login" in name for name in browser.cookies), "the attempt is over"


def test_without_tls_there_is_no_host_prefix(store: Store, provider: IdentityProvider) -> None:
    app = application(store, provider, url="http://canary.example")
    browser = Browser(app, base="http://canary.example")
    browser.sign_in(provider)
    assert "canary-session" in browser.cookies
    assert browser.get("/").status_code == 200


def test_another_replica_knows_the_session(browser: Browser, provider: IdentityProvider, store: Store) -> None:
    browser.sign_in(provider)
    other = Browser(application(store, provider), dict(browser.cookies))
    assert other.get("/").status_code == 200
    assert browser.post("/logout", Origin=ADDRESS).status_code == 200
    assert other.get("/").status_code == 303


# refusals


def refused(browser: Browser, answer: httpx.Response, status: int, words: str, store: Store) -> None:
    """Check that a sign-in was refused with one sentence, recorded, and opened nothing."""
    assert (answer.status_code, words in answer.text) == (status, True), answer.text
    assert SESSION not in browser.cookies
    assert browser.get("/").status_code == 303
    action = store.actions.page().items[0]
    assert (action.action, action.target, action.detail["status"]) == ("refused", "GET /login/callback", status)
    assert words in action.detail["why"]


def test_another_state_is_refused(browser: Browser, provider: IdentityProvider, store: Store) -> None:
    back = provider.agree(browser.leave_for())
    state = parse_qs(urlsplit(back).query)["state"][0]
    wrong = back.replace(state, "0" * 64)
    refused(browser, browser.get(wrong), 400, "not begun in this browser", store)
    without = Browser(browser.app)
    refused(without, without.get(back), 400, "not begun in this browser", store)
    assert provider.asked == [], "nothing was asked for the code"


def test_a_state_of_another_attempt_of_this_browser_is_refused(
    browser: Browser, provider: IdentityProvider, store: Store
) -> None:
    back = provider.agree(browser.leave_for())
    state = parse_qs(urlsplit(back).query)["state"][0]
    (name,) = browser.cookies
    attempt = attempt_of(browser.cookies[name])
    assert attempt is not None
    browser.cookies[name] = replace(attempt, state="1" * 64).cookie()
    refused(browser, browser.get(back), 400, "not begun in this browser", store)
    assert len(state) == 64


def test_two_tabs_sign_in_side_by_side(browser: Browser, provider: IdentityProvider) -> None:
    one, two = browser.leave_for("/incidents"), browser.leave_for("/runbooks")
    assert browser.get(provider.agree(one)).headers["location"] == "/incidents"
    assert browser.get(provider.agree(two)).headers["location"] == "/runbooks"


def test_another_nonce_is_refused(browser: Browser, provider: IdentityProvider, store: Store) -> None:
    provider.claims = {"nonce": "0" * 64}
    refused(browser, browser.sign_in(provider), 400, "of another sign-in", store)
    provider.claims = {"nonce": None}
    refused(browser, browser.sign_in(provider), 400, "of another sign-in", store)


def test_a_code_is_good_once(browser: Browser, provider: IdentityProvider, store: Store) -> None:
    back = provider.agree(browser.leave_for())
    kept = dict(browser.cookies)
    assert browser.get(back).status_code == 303
    again = Browser(browser.app, kept)
    refused(again, again.get(back), 400, "(invalid_grant); sign in again", store)


def test_a_code_without_its_verifier_is_refused(browser: Browser, provider: IdentityProvider, store: Store) -> None:
    back = provider.agree(browser.leave_for())
    (name,) = browser.cookies
    attempt = attempt_of(browser.cookies[name])
    assert attempt is not None
    browser.cookies[name] = replace(attempt, verifier="1" * 64).cookie()
    refused(browser, browser.get(back), 400, "invalid_grant", store)


@pytest.mark.parametrize(
    ("claims", "status", "words"),
    [
        ({"exp": 1_000_000_000}, 400, "expired_token"),
        ({"exp": None}, 400, "missing_claim"),
        ({"aud": "canary"}, 400, "invalid_claim"),
        ({"aud": ["other"]}, 400, "invalid_claim"),
        ({"aud": None}, 400, "missing_claim"),
        ({"azp": "other"}, 400, "another application"),
        ({"iss": "https://other.example"}, 400, "invalid_claim"),
        ({"scope": "openid"}, 403, "the claim scope of its ID token needs canary:read or canary:operate"),
        ({"scope": None}, 403, "the claim scope"),
    ],
)
def test_a_token_that_is_not_for_us_or_not_for_now_is_refused(
    browser: Browser, provider: IdentityProvider, store: Store, claims: dict[str, Any], status: int, words: str
) -> None:
    provider.claims = claims
    refused(browser, browser.sign_in(provider), status, words, store)


def test_a_token_that_is_valid_by_the_leeway_alone_begins_no_session(store: Store, provider: IdentityProvider) -> None:
    provider.claims = {"exp": int(time.time()) - 5}
    browser = Browser(application(store, provider, leeway="5m"))
    refused(browser, browser.sign_in(provider), 400, "expired already", store)


def test_a_token_that_the_provider_has_not_signed_is_refused(
    browser: Browser, provider: IdentityProvider, store: Store
) -> None:
    provider.unsigned = True
    refused(browser, browser.sign_in(provider), 400, "not valid here", store)
    provider.unsigned, provider.signing_key = False, jwk.RSAKey.generate_key(2048, {"kid": "one"}, private=True)
    refused(browser, browser.sign_in(provider), 400, "bad_signature", store)


def test_what_the_provider_refuses_is_one_sentence_without_its_text(
    browser: Browser, provider: IdentityProvider, store: Store
) -> None:
    state = parse_qs(urlsplit(browser.leave_for()).query)["state"][0]
    back = f"/login/callback?state={state}&error=access_denied&error_description=%3Cscript%3Esecret"
    answer = browser.get(back)
    refused(browser, answer, 403, "refused the sign-in (access_denied)", store)
    assert "secret" not in answer.text
    made_up = browser.get(back.replace("access_denied", "%3Cb%3Eyou+must+call"))
    assert (made_up.status_code, "you must call" in made_up.text) == (403, False)
    mixed = browser.get(f"/login/callback?state={state}&code=x&iss=https://other.example")
    refused(browser, mixed, 400, "Another identity provider", store)
    provider.answer = (401, {"error": "invalid_client"})
    refused(browser, browser.sign_in(provider), 400, "api.auth.oidc", store)
    provider.answer = (200, {"access_token": "x"})
    refused(browser, browser.sign_in(provider), 400, "no ID token", store)


@pytest.mark.parametrize(
    "description",
    [
        {"issuer": "https://other.example"},
        {"token_endpoint": "http://10.0.0.1/token"},
        {"token_endpoint": None},
        {"jwks_uri": "http://10.0.0.1/keys"},
    ],
)
def test_a_provider_that_is_away_another_or_without_tls_is_a_sentence(
    browser: Browser, provider: IdentityProvider, store: Store, description: dict[str, Any]
) -> None:
    back, begun = provider.agree(browser.leave_for()), dict(browser.cookies)
    provider.description = description
    other = Browser(application(store, provider), begun)
    refused(other, other.get(back), 503, "identity provider does not answer", store)
    if "issuer" in description:
        assert other.get("/login").status_code == 503


def test_who_begins_to_sign_in_asks_nothing_of_the_provider(browser: Browser, provider: IdentityProvider) -> None:
    browser.leave_for()
    provider.description = {"issuer": "https://other.example"}
    assert [browser.get("/login").status_code for _ in range(3)] == [303] * 3


def test_neither_codes_nor_tokens_nor_cookies_stand_in_a_log_or_an_answer(
    browser: Browser, provider: IdentityProvider, store: Store
) -> None:
    with capture_logs() as logged:
        back = provider.agree(browser.leave_for())
        code = parse_qs(urlsplit(back).query)["code"][0]
        said = [browser.get(back).text, browser.get("/").text, browser.get(back).text]
        said.append(browser.get("/api/v1/actions").text)
        cookie = browser.cookies[SESSION]
        provider.claims = {"aud": "other"}
        other = Browser(browser.app)
        said.append(other.sign_in(provider).text)
        said.append(browser.post("/logout", Origin=ADDRESS).text)
    everything = str(logged) + "".join(said) + str(store.actions.page().items)
    assert len(provider.given) == 2
    for secret in (code, cookie, *provider.given):
        assert secret not in everything


# sessions


def test_a_cookie_of_no_session_opens_nothing(browser: Browser, provider: IdentityProvider) -> None:
    browser.sign_in(provider)
    for cookie in ("0" * 43, "", "x", browser.cookies[SESSION][:-1] + "!"):
        other = Browser(browser.app, {SESSION: cookie})
        assert other.get("/").status_code == 303
        assert other.get("/api/v1/clusters", Accept="*/*").status_code == 401
        posted = other.post("/api/v1/reconciliations", Origin=ADDRESS)
        assert (posted.status_code, "Basic" in posted.headers["www-authenticate"]) == (401, False)


def test_a_cookie_opens_nothing_after_signing_out(browser: Browser, provider: IdentityProvider, store: Store) -> None:
    browser.sign_in(provider)
    kept = Browser(browser.app, dict(browser.cookies))
    assert kept.get("/").status_code == 200
    answer = browser.post("/logout", Origin=ADDRESS)
    assert (answer.status_code, "You have signed out" in answer.text) == (200, True)
    assert SESSION not in browser.cookies
    assert kept.get("/").status_code == 303
    assert kept.post("/logout", Origin=ADDRESS).status_code == 200
    assert [action.action for action in store.actions.page().items] == ["sign-out", "sign-in"]


@pytest.mark.parametrize(("claims", "setting", "lasts_s"), [({}, "8h", 300), ({"exp": 2**40}, "1h", 3600)])
def test_a_session_ends_with_its_token_and_with_the_setting(
    store: Store, provider: IdentityProvider, claims: dict[str, Any], setting: str, lasts_s: int
) -> None:
    provider.claims = claims
    browser = Browser(application(store, provider, session=setting))
    browser.sign_in(provider)
    cookie, now_ns = browser.cookies[SESSION], time.time_ns()
    assert store.sessions.verify(cookie, now_ns + (lasts_s - 60) * 10**9) is not None
    assert store.sessions.verify(cookie, now_ns + lasts_s * 10**9) is None


def test_a_cookie_opens_nothing_after_its_session_has_expired(
    browser: Browser, provider: IdentityProvider, store: Store
) -> None:
    browser.sign_in(provider)
    assert browser.get("/").status_code == 200
    with store._database.writing() as connection:
        connection.execute(update(SESSIONS).values(expires_ns=time.time_ns()))
    assert browser.get("/").status_code == 303
    Browser(browser.app).sign_in(provider)
    with store._database.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM sessions").scalar() == 1, "the expired one is deleted"


def test_a_reader_reads_and_signs_out(browser: Browser, provider: IdentityProvider, store: Store) -> None:
    provider.claims = {"scope": "canary:read"}
    store.violations.record("prod", [lost(1)])
    (row,) = store.violations.page().items
    browser.sign_in(provider)
    assert browser.post(f"/incidents/{row.incident_id}/acknowledge", Origin=ADDRESS).status_code == 403
    assert browser.post("/logout", Origin=ADDRESS).status_code == 200


def test_a_page_of_another_origin_changes_nothing_with_a_session(
    browser: Browser, provider: IdentityProvider, store: Store
) -> None:
    store.violations.record("prod", [lost(1)])
    (row,) = store.violations.page().items
    browser.sign_in(provider)
    for path in (f"/incidents/{row.incident_id}/acknowledge", "/logout"):
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": f"{ADDRESS}:8443"},
            {"Sec-Fetch-Site": "same-site", "Origin": ADDRESS},
            {"Sec-Fetch-Site": "cross-site"},
        ):
            assert browser.post(path, **headers).status_code == 403, headers
    path = f"/incidents/{row.incident_id}/acknowledge"
    assert browser.post(path).status_code == 403, "a browser says where a form comes from"
    assert store.violations.get(row.id).state == "open"  # type: ignore[union-attr]
    assert browser.get("/").status_code == 200
    assert browser.post(path, Origin=ADDRESS).status_code == 303
    assert store.violations.get(row.id).state == "acknowledged"  # type: ignore[union-attr]


def test_a_session_sees_the_clusters_that_its_claim_names(store: Store, provider: IdentityProvider) -> None:
    store.views.save("other", "canary-0", time.time_ns(), view())
    app = application(store, provider, clusters_claim="clusters")
    for claim, seen in ((["prod"], {"prod"}), ("other prod", {"other", "prod"}), (["*"], {"other", "prod"})):
        provider.claims = {"clusters": claim}
        browser = Browser(app)
        browser.sign_in(provider)
        items = browser.get("/api/v1/clusters").json()["items"]
        assert {item["name"] for item in items} == seen
    provider.claims = {}
    browser = Browser(app)
    refused(browser, browser.sign_in(provider), 403, "clusters the names of clusters", store)


# where it leads


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        "javascript:alert(1)",
        "evil.example",
        "",
        "/é",
        "/" + "a" * 1000,
    ],
)
def test_nothing_leads_to_another_site(browser: Browser, provider: IdentityProvider, elsewhere: str) -> None:
    assert place_of(elsewhere) == "/"
    at_provider = browser.get(f"/login?next={quote(elsewhere, safe='')}").headers["location"]
    (name,) = browser.cookies
    attempt = attempt_of(browser.cookies[name])
    assert attempt is not None
    browser.cookies[name] = replace(attempt, place=elsewhere).cookie()  # as if the cookie had been made up
    back = browser.get(provider.agree(at_provider))
    assert back.headers.get("location", "/") == "/"


def test_what_is_no_page_for_a_browser_is_asked_for_a_token(browser: Browser, store: Store) -> None:
    for accept in ("*/*", "application/json", "text/css"):
        assert browser.get("/api/v1/clusters", Accept=accept).status_code == 401
    assert browser.post("/api/v1/reconciliations", Origin=ADDRESS).status_code == 401
    assert browser.get("/", Authorization="Bearer nonsense").status_code == 401
    token, _ = store.tokens.create("ann", "read", time.time_ns())
    assert browser.get("/", Authorization=f"Bearer {token}").status_code == 200
    assert browser.get("/static/canary.css").status_code == 200


def test_where_no_login_is_set_the_browser_is_asked_for_a_password(store: Store, provider: IdentityProvider) -> None:
    browser = Browser(application(store, provider, login=False))
    assert browser.get("/").status_code == 401
    for path in ("/login", "/login/callback", "/static/canary.css"):
        assert browser.get(path).status_code == 401
    token, _ = store.tokens.create("ann", "operate", time.time_ns())
    assert browser.get("/login", Authorization=f"Bearer {token}").status_code == 404


def test_a_cookie_that_is_no_attempt_is_none() -> None:
    attempt = Attempt("s", "n", "v", "/")
    assert attempt_of(attempt.cookie()) == attempt
    broken: tuple[object, ...] = ({"state": "s"}, {"state": 1, "nonce": "n", "verifier": "v", "place": "/"}, [], "x", 1)
    words = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in broken]
    for cookie in (None, "", "!", "é", "AAAA", *words, replace(attempt, state="\ud800").cookie()):
        assert attempt_of(cookie) is None


# settings


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"issuer": "http://id.example"}, "write https://"),
        ({"jwks_url": "http://id.example/keys"}, "write https://"),
        ({"issuer": "http://localhost.example"}, "write https://"),
        ({"client_id": None}, "the provider calls the canary"),
    ],
)
def test_what_is_not_safe_or_not_complete_is_refused_with_the_remedy(told: dict[str, Any], words: str) -> None:
    oidc = {"issuer": "https://id.example", "audience": "canary", "login": True, "client_id": "canary"} | told
    with pytest.raises(ValueError, match="canary") as refusal:
        ApiSettings.model_validate({"url": ADDRESS, "auth": {"required": "always", "oidc": oidc}})
    (error,) = refusal.value.errors()  # type: ignore[attr-defined]  # pydantic's
    assert words in f"{error['msg']}; {error['ctx']['remedy']}"


def test_login_needs_an_address_and_something_to_sign_in_for() -> None:
    oidc = {"issuer": "https://id.example", "audience": "canary", "login": True, "client_id": "canary"}
    for told, place in (
        ({"host": "0.0.0.0"}, ("url",)),
        ({"host": "127.0.0.1"}, ("auth", "required")),
    ):
        with pytest.raises(ValueError, match="canary") as refusal:
            ApiSettings.model_validate({**told, "auth": {"oidc": oidc}})
        (error,) = refusal.value.errors()  # type: ignore[attr-defined]  # pydantic's
        assert error["ctx"]["under"] == place


@pytest.mark.parametrize("issuer", ["http://127.0.0.1:5556/dex", "http://localhost", "http://[::1]:80"])
def test_a_provider_on_loopback_may_do_without_tls(issuer: str) -> None:
    oidc = {"issuer": issuer, "audience": "canary", "jwks_url": f"{issuer}/keys"}
    assert ApiSettings.model_validate({"auth": {"oidc": oidc}}).auth.oidc is not None

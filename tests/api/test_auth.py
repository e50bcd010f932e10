"""Who gets in, and who does not."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

import pytest
from joserfc import jwk, jwt
from structlog.testing import capture_logs

from api import create_app
from api.access.auth import MOST_RECORDED, Failures
from api.access.oidc import Provider, ProviderError
from canary.settings.serving import ApiSettings, OidcSettings
from storage.store import Store, StoreError
from tests.api.serving import Client, ProbeLogFake, lost, settings, view

if TYPE_CHECKING:
    from collections.abc import Mapping

ISSUER = "https://issuer.example"
LISTS = "/api/v1/violations"
WRONG = f"canary_{'0' * 16}_{'b' * 43}"


@pytest.fixture
def guarded(store: Store) -> Client:
    store.views.save("prod", "canary-0", time.time_ns(), view())
    return Client(create_app(settings("prod", auth={"required": "always"}), store, ProbeLogFake()))


def serving(**api: Any) -> ApiSettings:
    return ApiSettings.model_validate(api)


def oidc(**more: Any) -> OidcSettings:
    return OidcSettings.model_validate({"issuer": ISSUER, "audience": "canary"} | more)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def token(store: Store, scope: Any = "read", **more: Any) -> str:
    return store.tokens.create("ann", scope, time.time_ns(), **more)[0]


def test_without_a_token_nothing_but_healthz_answers(guarded: Client) -> None:
    assert guarded.get("/healthz").status_code == 200
    paths = [str(getattr(route, "path", "/")) for route in guarded.app.routes]
    paths += [*guarded.app.openapi()["paths"], "/static/canary.css", "/openapi.json", "/nowhere", "/healthz/"]
    for path in paths:
        if path != "/healthz":
            answer = guarded.get(path)
            assert answer.status_code == 401, path
            assert answer.headers["content-type"] == "application/problem+json"
            assert "Bearer" in answer.headers["www-authenticate"]
            assert "Content-Security-Policy" in answer.headers


def test_the_settings_may_open_metrics_and_readiness(store: Store) -> None:
    store.views.save("prod", "canary-0", time.time_ns(), view())
    opened = settings("prod", auth={"required": "always", "open": ("metrics", "readyz")})
    client = Client(create_app(opened, store, ProbeLogFake()))
    assert [client.get(path).status_code for path in ("/metrics", "/readyz", "/", LISTS)] == [200, 200, 401, 401]
    assert client.post("/metrics", {}).status_code == 401


def test_a_read_token_reads_and_changes_nothing(guarded: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1)])
    (row,) = store.violations.page().items
    reader = bearer(token(store))
    assert guarded.ask("GET", LISTS, headers=reader).status_code == 200
    assert guarded.post(f"{LISTS}/{row.id}/acknowledge", {}, headers=reader).status_code == 403
    for path, methods in guarded.app.openapi()["paths"].items():
        for method in {"post", "put", "patch", "delete"} & set(methods):
            assert guarded.ask(method.upper(), path, headers=reader).status_code == 403
    assert store.violations.get(row.id).state == "open"  # type: ignore[union-attr]
    assert {(one.actor, one.action, one.detail["status"]) for one in store.actions.page().items} == {
        ("ann", "refused", 403)
    }


def test_an_operate_token_operates_and_the_record_says_who(guarded: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1)])
    (row,) = store.violations.page().items
    answer = guarded.post(f"{LISTS}/{row.id}/acknowledge", {"note": "mine"}, headers=bearer(token(store, "operate")))
    assert answer.status_code == 200
    (action,) = store.actions.page().items
    assert (action.actor, action.action, action.target) == ("ann", "acknowledge", f"violation {row.id}")
    listed = guarded.ask("GET", "/api/v1/actions", headers=bearer(token(store))).json()["items"]
    assert listed[0]["detail"] == {"note": "mine"}
    assert (listed[0]["address"], listed[0]["forwarded_for"]) == ("127.0.0.1", None)


def test_what_cannot_be_written_down_is_not_done(guarded: Client, store: Store, monkeypatch: Any) -> None:
    store.violations.record("prod", [lost(1)])
    (row,) = store.violations.page().items
    credential = bearer(token(store, "operate"))

    def away(*_: object) -> None:
        raise StoreError("away")

    monkeypatch.setattr(store.actions, "record", away)
    assert guarded.post(f"{LISTS}/{row.id}/acknowledge", {}, headers=credential).status_code == 503
    assert store.violations.get(row.id).state == "open"  # type: ignore[union-attr]


def test_a_browser_gives_the_token_as_a_password(guarded: Client, store: Store) -> None:
    words = base64.b64encode(f"me:{token(store)}".encode()).decode()
    assert guarded.ask("GET", "/", headers={"Authorization": f"Basic {words}"}).status_code == 200
    for broken in ("Basic ?", "Basic " + base64.b64encode(b"nocolon").decode(), "Bearer", "Digest x", ""):
        assert guarded.ask("GET", "/", headers={"Authorization": broken}).status_code == 401


def test_a_revoked_or_expired_token_opens_nothing(guarded: Client, store: Store) -> None:
    words, kept = store.tokens.create("ann", "read", time.time_ns())
    store.tokens.revoke(kept.id, time.time_ns())
    assert guarded.ask("GET", LISTS, headers=bearer(words)).status_code == 401
    expired = token(store, expires_ns=time.time_ns() - 1)
    assert guarded.ask("GET", LISTS, headers=bearer(expired)).status_code == 401


def test_whatever_others_of_its_address_get_wrong_a_valid_token_is_never_refused(guarded: Client, store: Store) -> None:
    good, late = token(store), token(store)
    assert guarded.ask("GET", LISTS, headers=bearer(good)).status_code == 200
    wrong = [guarded.ask("GET", LISTS, headers=bearer(WRONG)) for _ in range(12)]
    assert [answer.status_code for answer in wrong] == [401] * 10 + [429] * 2
    assert 0 < int(wrong[-1].headers["retry-after"]) <= 61
    for valid in (good, late, token(store)):
        assert guarded.ask("GET", LISTS, headers=bearer(valid)).status_code == 200
    assert guarded.get(LISTS).status_code == 401  # a browser has to be asked, not sent away


def test_failed_attempts_are_in_the_record_with_where_they_came_from_until_they_flood(
    guarded: Client, store: Store
) -> None:
    reader = bearer(token(store))
    assert guarded.get(LISTS).status_code == 401  # whoever brings no token and changes nothing tried nothing
    guarded.ask("POST", f"{LISTS}/%00/acknowledge", headers=reader | {"X-Forwarded-For": "10.1.2.3"})
    for _ in range(30):
        guarded.ask("GET", LISTS, headers=bearer(WRONG))
    *wrong, forbidden = store.actions.page().items
    assert (forbidden.actor, forbidden.action, forbidden.target) == ("ann", "refused", f"POST {LISTS}/%00/acknowledge")
    assert forbidden.detail == {
        "address": "127.0.0.1",
        "forwarded_for": "10.1.2.3",
        "status": 403,
        "why": "This token may read; changing something needs the scope operate.",
    }
    assert {(one.actor, one.target, one.detail["status"]) for one in wrong} == {("anonymous", f"GET {LISTS}", 401)}
    assert len(wrong) == 9
    listed = guarded.ask("GET", "/api/v1/actions", headers=reader).json()["items"]
    assert {(item["action"], item["address"]) for item in listed} == {("refused", "127.0.0.1")}
    assert WRONG not in str(listed)


def test_what_a_client_makes_up_hides_no_address_that_a_proxy_adds(guarded: Client, store: Store) -> None:
    for made_up in (
        [("X-Forwarded-For", "x" * 300 + ", 10.1.2.3")],
        [("X-Forwarded-For", "x"), ("X-Forwarded-For", "10.1.2.3")],
    ):
        guarded.ask("GET", LISTS, headers=[*bearer(WRONG).items(), *made_up])
        said = str(store.actions.page().items[0].detail["forwarded_for"])
        assert said.endswith(", 10.1.2.3")
        assert len(said) <= 200


def test_a_refusal_needs_no_store(guarded: Client, store: Store, monkeypatch: Any) -> None:
    def away(*_: object) -> None:
        raise StoreError("away")

    monkeypatch.setattr(store.actions, "record", away)
    assert guarded.ask("GET", LISTS, headers=bearer(WRONG)).status_code == 401


def test_all_addresses_together_record_no_more_than_a_hundred_failures_a_minute() -> None:
    now = [0.0]
    failures = Failures(2, lambda: now[0])
    assert sum(failures.add(str(n)) for n in range(200)) == MOST_RECORDED
    now[0] = 60.0
    assert failures.add("a")


@pytest.mark.parametrize("needed", ["always", "never"])
def test_a_name_that_is_not_ours_opens_nothing(store: Store, needed: str) -> None:
    store.violations.record("prod", [lost(1)])
    (row,) = store.violations.page().items
    told: dict[str, Any] = {
        "url": "https://canary.example:8443/",
        "hosts": ("canary", "*.Internal"),
        "auth": {"required": needed},
    }
    client = Client(create_app(settings("prod", **told), store, ProbeLogFake()))
    operator = bearer(token(store, "operate"))
    strange = ("evil.example", "evil.example:8080", "canary.example.evil", "internal", "xinternal", "", "[", "evil@a.b")
    for host in strange:
        for method, path in (
            ("GET", "/"),
            ("GET", LISTS),
            ("GET", "/metrics"),
            ("POST", f"{LISTS}/{row.id}/acknowledge"),
        ):
            own = {"Host": host, "Origin": f"http://{host}"}
            assert client.ask(method, path, headers=operator | own).status_code == 421, (host, path)
        assert client.ask("GET", "/healthz", headers={"Host": host}).status_code == 200
    known = ("localhost:8080", "LOCALHOST", "127.0.0.1:1", "[::1]:8080", "10.2.3.4:8080", "canary.example", "canary:80")
    for host in (*known, "a.internal", "a.b.internal.:80"):
        assert client.ask("GET", LISTS, headers=operator | {"Host": host}).status_code == 200, host
    assert store.violations.get(row.id).state == "open"  # type: ignore[union-attr]
    assert {one.detail["status"] for one in store.actions.page().items} == {421}


def test_loopback_names_alone_are_known_unless_told_otherwise(store: Store) -> None:
    client = Client(create_app(settings("prod", hosts=()), store, ProbeLogFake()))
    said = {host: client.ask("GET", LISTS, headers={"Host": host}).status_code for host in ("localhost", "canary")}
    assert said == {"localhost": 200, "canary": 421}
    anything = Client(create_app(settings("prod", hosts=("*",)), store, ProbeLogFake()))
    assert anything.ask("GET", LISTS, headers={"Host": "evil.example"}).status_code == 200


def test_an_address_is_looked_at_again_a_minute_later() -> None:
    now = [0.0]
    failures = Failures(2, lambda: now[0])
    failures.add("a")
    assert failures.wait_s("a") == 0
    failures.add("a")
    assert failures.wait_s("a") == 60
    assert failures.wait_s("b") == 0
    now[0] = 60.0
    assert failures.wait_s("a") == 0
    failures.add("a")
    assert failures.wait_s("a") == 0


def test_no_token_is_needed_on_loopback_alone_unless_told_otherwise() -> None:
    for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"):
        assert not serving(host=host).needs_token
    for host in ("0.0.0.0", "::", "10.0.0.1", "canary.example"):
        assert serving(host=host).needs_token
        assert not serving(host=host, auth={"required": "never"}).needs_token


def test_a_page_of_another_site_changes_nothing(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1)])
    (row,) = store.violations.page().items
    path = f"{LISTS}/{row.id}/acknowledge"
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
    ):
        assert client.post(path, {}, headers=headers).status_code == 403
    for headers in ({"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://canary"}):
        assert client.post(path, {}, headers=headers).status_code == 200


def test_a_store_that_is_away_lets_nobody_in(guarded: Client, store: Store, monkeypatch: Any) -> None:
    def away(*_: object) -> None:
        raise StoreError("away")

    credential = bearer(token(store))
    monkeypatch.setattr(store.tokens, "verify", away)
    assert guarded.ask("GET", LISTS, headers=credential).status_code == 503


def test_tokens_stand_in_no_log_and_no_answer(guarded: Client, store: Store) -> None:
    good, bad = token(store, "operate"), "canary_" + "0" * 16 + "_" + "b" * 43
    with capture_logs() as logged:
        said = [
            guarded.ask("GET", path, headers=bearer(words)).text
            for words in (good, bad)
            for path in ("/", LISTS, "/metrics", "/nowhere", "/api/v1/actions")
        ]
    everything = str(logged) + "".join(said)
    assert good[-43:] not in everything
    assert "b" * 43 not in everything


# An identity provider


class Issuer:
    """A provider that is counted: its keys, and how often they were asked for."""

    def __init__(self) -> None:
        self.asked = 0
        self.now = 1_000_000.0
        self.key = jwk.RSAKey.generate_key(2048, {"kid": "one"}, private=True)

    def fetch(self, url: str) -> Mapping[str, Any]:
        self.asked += 1
        if url.endswith("/.well-known/openid-configuration"):
            return {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}
        return {"keys": [self.key.as_dict(private=False)]}

    def provider(self, **more: Any) -> Provider:
        settings = oidc(**more)
        return Provider(settings, now=lambda: self.now, monotonic=lambda: self.now, fetch=self.fetch)

    def token(self, *, alg: str = "RS256", key: Any = None, **claims: Any) -> str:
        own = {"iss": ISSUER, "aud": "canary", "exp": int(self.now) + 300, "sub": "ann", "scope": "canary:read"}
        kept = {name: value for name, value in (own | claims).items() if value is not None}
        return jwt.encode({"alg": alg, "kid": (key or self.key).kid or "x"}, kept, key or self.key)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


def test_a_providers_token_names_the_person_and_what_they_may(issuer: Issuer) -> None:
    provider = issuer.provider()
    reader = provider.principal(issuer.token())
    operator = provider.principal(issuer.token(scope=["other", "canary:operate"], aud=["x", "canary"]))
    assert reader is not None
    assert operator is not None
    assert (reader.name, reader.operate, operator.operate) == ("ann", False, True)


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://other.example"},
        {"aud": "other"},
        {"aud": None},
        {"exp": 999_000},
        {"exp": None},
        {"nbf": 1_001_000},
        {"scope": "openid"},
        {"scope": None},
        {"scope": {"canary:operate": True}},
        {"iss": None},
    ],
)
def test_a_token_that_is_not_for_us_or_not_for_now_opens_nothing(issuer: Issuer, claims: dict[str, Any]) -> None:
    assert issuer.provider().principal(issuer.token(**claims)) is None


def test_a_claim_may_name_the_clusters_that_a_token_is_for(issuer: Issuer) -> None:
    provider = issuer.provider(clusters_claim="groups")
    for said, seen in (("prod-eu prod-us", {"prod-eu", "prod-us"}), (["prod-eu"], {"prod-eu"}), (["a", "*"], None)):
        found = provider.principal(issuer.token(groups=said))
        assert found is not None
        assert found.clusters == seen
    none: tuple[object, ...] = ([], "", None, {"prod-eu": 1})
    for nothing in none:
        assert provider.principal(issuer.token(groups=nothing)) is None, "a token without the claim opens nothing"
    assert issuer.provider().principal(issuer.token()).clusters is None  # type: ignore[union-attr]


def test_a_description_of_another_issuer_is_not_believed(issuer: Issuer) -> None:
    def fetch(url: str) -> Mapping[str, Any]:
        return {**issuer.fetch(url), **({} if url.endswith("keys") else {"issuer": f"{ISSUER}/other"})}

    provider = Provider(oidc(), now=lambda: issuer.now, monotonic=lambda: issuer.now, fetch=fetch)
    with pytest.raises(ProviderError, match="another issuer"):
        provider.principal(issuer.token())


def test_another_signature_opens_nothing(issuer: Issuer) -> None:
    provider = issuer.provider()
    other = jwk.RSAKey.generate_key(2048, {"kid": "one"}, private=True)
    assert provider.principal(issuer.token(key=other)) is None
    public = issuer.key.as_pem(private=False)
    secret = jwk.OctKey.import_key(b"s" * 32, {"kid": "one"})
    assert provider.principal(issuer.token(alg="HS256", key=secret)) is None
    assert public
    unsigned = issuer.token().split(".")
    head = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    assert provider.principal(f"{head}.{unsigned[1]}.") is None
    for nonsense in ("", "a.b.c", "x", "a.b.c.d.e", "\x00"):
        assert provider.principal(nonsense) is None


def test_a_new_key_is_fetched_and_unknown_ones_do_not_flood_the_provider() -> None:
    issuer = Issuer()
    provider = issuer.provider(jwks_url=f"{ISSUER}/keys")
    assert provider.principal(issuer.token()) is not None
    issuer.key = jwk.RSAKey.generate_key(2048, {"kid": "two"}, private=True)
    assert provider.principal(issuer.token()) is None  # fetched just now
    asked = issuer.asked
    for _ in range(20):
        provider.principal(issuer.token())
    assert issuer.asked == asked
    issuer.now += 31
    assert provider.principal(issuer.token()) is not None


def test_a_provider_that_is_away_is_said_so() -> None:
    def away(_: str) -> Mapping[str, Any]:
        raise ValueError("no")

    provider = Provider(oidc(), now=time.time, monotonic=time.monotonic, fetch=away)
    with pytest.raises(ProviderError):
        provider.principal("a.b.c")


def test_symmetric_signatures_cannot_be_set() -> None:
    with pytest.raises(ValueError, match="algorithms"):
        oidc(algorithms=["HS256"])

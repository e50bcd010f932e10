from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from canary.settings import load
from dashboards.__main__ import GENERATED
from dashboards.boards.catalogue import boards
from tests.support.certificates import self_signed

TOMORROW = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"


class Healthy(BaseHTTPRequestHandler):
    """Answers /healthz."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_said: object) -> None:
        """Say nothing."""


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


COMPOSE = read("compose.yaml")
YAML = sorted(path.relative_to(DEPLOY).as_posix() for path in DEPLOY.rglob("*.y*ml"))


def mounts(service: str) -> dict[str, str]:
    """Path in the container to the host's path or the volume's name."""
    found = {}
    for volume in COMPOSE["services"][service].get("volumes", []):
        source, target = volume.split(":")[:2]
        found[target] = source
    return found


@pytest.mark.parametrize("name", [name for name in YAML if "/templates/" not in name])  # test_chart renders those
def test_every_file_is_yaml(name: str) -> None:
    assert read(name)


def test_what_is_mounted_exists() -> None:
    for service in COMPOSE["services"]:
        for source in mounts(service).values():
            if source == "./canary.yaml":  # the operator's, made from the example
                source = "./canary.example.yaml"  # noqa: PLW2901
            if source.startswith("."):
                assert (DEPLOY / source).exists(), source
            else:
                assert source in COMPOSE["volumes"], source


def test_prometheus_reaches_the_canary_by_a_name_that_it_knows_and_links_lead_to_the_published_port() -> None:
    environment = COMPOSE["services"]["canary"]["environment"]
    (target,) = read("prometheus.yml")["scrape_configs"][0]["static_configs"][0]["targets"]
    assert target.partition(":")[0] in json.loads(environment["CANARY_API__HOSTS"])
    assert COMPOSE["services"]["canary"]["ports"] == ["127.0.0.1:8080:8080"]
    assert environment["CANARY_API__URL"] == "http://localhost:8080"


def test_prometheus_loads_the_generated_rules() -> None:
    rules = ROOT / GENERATED / "rules.yml"
    (target,) = (target for target, source in mounts("prometheus").items() if (DEPLOY / source).resolve() == rules)
    (pattern,) = read("prometheus.yml")["rule_files"]
    assert Path(target).match(pattern)


def test_prometheus_scrapes_the_canary_and_tells_the_alertmanager() -> None:
    content = read("prometheus.yml")
    targets = content["scrape_configs"][0]["static_configs"][0]["targets"]
    targets += content["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    assert {target.split(":")[0] for target in targets} <= set(COMPOSE["services"])
    assert targets[0].split(":")[1] == "8080"


def test_grafana_finds_the_generated_dashboards() -> None:
    provider = read("grafana/provisioning/dashboards/canary.yaml")["providers"][0]
    folder = provider["options"]["path"]
    made = {path.stem: json.loads(path.read_text("utf-8")) for path in (DEPLOY / mounts("grafana")[folder]).iterdir()}
    assert set(made) == set(boards())
    assert all(one["panels"] for one in made.values())
    home = Path(COMPOSE["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert home.parent == Path(folder)
    assert home.stem in made
    source = read("grafana/provisioning/datasources/prometheus.yaml")["datasources"][0]
    assert source["url"].split("/")[2].split(":")[0] in COMPOSE["services"]


def test_alerts_reach_a_receiver_by_severity() -> None:
    content = read("alertmanager.yml")
    receivers = {receiver["name"] for receiver in content["receivers"]}
    routes = content["route"]["routes"]
    assert {route["receiver"] for route in routes} | {content["route"]["receiver"]} <= receivers
    assert any('severity="critical"' in matcher for route in routes for matcher in route["matchers"])


def test_alerts_that_are_inhibited_exist() -> None:
    rules = yaml.safe_load((ROOT / GENERATED / "rules.yml").read_text(encoding="utf-8"))
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule]
    for rule in read("alertmanager.yml")["inhibit_rules"]:
        for matcher in rule["source_matchers"] + rule["target_matchers"]:
            for name in re.split(r"\|", matcher.split('"')[1]):
                assert any(re.fullmatch(name, alert) for alert in alerts), name


def test_the_example_settings_are_accepted() -> None:
    settings = load(DEPLOY / "canary.example.yaml", {"CANARY_STORE__URL": "postgresql+psycopg://c:p@postgres/c"})
    assert settings.clusters[0].name == "prod"
    assert not settings.clusters[0].embedded
    for path in (settings.ledger.directory, settings.probe_log.url):
        assert str(path).startswith("/var/lib/canary/")


def test_no_password_is_in_any_file() -> None:
    environment = COMPOSE["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"]
    assert environment.startswith("${POSTGRES_PASSWORD:?")
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            assert not re.search(r"(?i)password:\s+[^\s${]", path.read_text(encoding="utf-8")), path


def test_the_image_is_small_in_rights() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert next(line for line in lines if line.startswith("FROM")).endswith("AS build")
    last_stage = lines[max(i for i, line in enumerate(lines) if line.startswith("FROM")) :]
    assert "USER 10001" in last_stage
    assert any(line.startswith("HEALTHCHECK") for line in last_stage)
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source
    canary = COMPOSE["services"]["canary"]
    assert canary["read_only"]
    assert canary["cap_drop"] == ["ALL"]


def test_hadolint_has_nothing_to_say() -> None:
    content = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert "apt-get upgrade" not in content
    assert "chmod a-s" in content  # nothing in the image may gain rights
    hadolint = Path(sys.executable).parent / "hadolint"
    ran = subprocess.run([hadolint, str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_no_service_may_gain_rights() -> None:
    for name, service in COMPOSE["services"].items():
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service.get("cap_drop") == ["ALL"] or name == "postgres", (
            name
        )  # which changes to its own user at the start
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name


def test_the_image_has_every_package_of_the_wheel() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    packages = re.search(r"packages = \[(.*?)\]", project)
    assert packages
    docker = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    for name in re.findall(r'"(\w+)"', packages[1]):
        assert f"COPY {name} {name}" in docker
        assert f"!{name}" in ignored


def test_the_image_brings_what_spark_needs_to_read_from_kafka() -> None:
    build, last = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").rsplit("\nFROM ", 1)
    assert build.index("uv sync") < build.index("-m spark_reconcile.dump.connector")
    assert "COPY --from=build /opt/canary /opt/canary" in last
    assert last.split("SPARK_HOME=")[1].startswith("/opt/canary/")  # executors are pods of this image
    assert "KubernetesExecutorBackend" in (DEPLOY / "entrypoint.sh").read_text(encoding="utf-8")


def test_every_part_of_the_image_is_named_by_a_digest() -> None:
    content = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", content, re.MULTILINE)
    assert {line for line in content.splitlines() if line.startswith("FROM")} == {
        "FROM ${BASE} AS build",
        "FROM ${BASE}",
    }


@pytest.mark.parametrize("tls", [False, True])
def test_the_health_check_asks_with_tls_and_without(tmp_path: Path, *, tls: bool) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Healthy)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        for path, pem in zip(
            paths := (tmp_path / "cert.pem", tmp_path / "key.pem"), self_signed(TOMORROW), strict=True
        ):
            path.write_bytes(pem)
        context.load_cert_chain(*paths)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    asked = [sys.executable, str(DEPLOY / "healthcheck.py")]
    environment = os.environ | {"CANARY_API__PORT": str(server.server_port)}
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        assert subprocess.run(asked, env=environment, timeout=60, check=False).returncode == 0
        server.shutdown()
        thread.join()
    assert subprocess.run(asked, env=environment, timeout=60, check=False).returncode == 1


def test_one_version_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    chart = read("helm/kafka-durability-canary/Chart.yaml")
    assert chart["version"] == chart["appVersion"] == project["version"]
    locked = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    assert [one["version"] for one in locked if one["name"] == project["name"]] == [project["version"]]
    assert f"## [{project['version']}] - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_image_is_made_with_the_uv_of_the_makefile() -> None:
    pinned = re.search(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned
    assert f"pip install uv=={pinned[1]} " in (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def test_what_is_locked_comes_from_the_public_index() -> None:
    hosts = set(re.findall(r"https?://([^/\"]+)", (ROOT / "uv.lock").read_text(encoding="utf-8")))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}


def tool(name: str) -> str:
    found = os.environ.get(name.upper()) or shutil.which(name)
    assert found, (
        f"{name} is missing: install the packages prometheus and prometheus-alertmanager, or set {name.upper()}"
    )
    return found


@pytest.mark.e2e
def test_prometheus_and_alertmanager_accept_their_files() -> None:
    subprocess.run([tool("promtool"), "check", "config", "--syntax-only", str(DEPLOY / "prometheus.yml")], check=True)
    subprocess.run([tool("amtool"), "check-config", str(DEPLOY / "alertmanager.yml")], check=True)

"""Settings are read from YAML and the environment, and what is wrong is named with its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from canary.settings import Settings, SettingsError, load
from canary.settings.fields import models_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import BaseModel

NOTHING: Mapping[str, str] = {}


@pytest.fixture(name="yaml_file")
def _yaml_file(tmp_path: Path) -> Path:
    return tmp_path / "canary.yaml"


def refusal(path: Path | None, environ: Mapping[str, str] = NOTHING) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load(path, environ)
    assert caught.value.exit_status == 2
    assert "\n" not in str(caught.value)
    return caught.value


def test_without_a_file_everything_has_a_safe_default() -> None:
    settings = load(None, NOTHING)
    (cluster,) = settings.clusters
    assert cluster.embedded
    assert (cluster.topic.name, cluster.topic.partitions, cluster.topic.replication_factor) == (
        "durability-canary",
        3,
        3,
    )
    assert cluster.topic.config == {"min.insync.replicas": "2", "retention.ms": "604800000"}
    assert cluster.modes.idempotent is not None
    assert (cluster.modes.idempotent.interval, cluster.modes.idempotent.record_length) == (0.1, 96)
    assert settings.store.url.get_secret_value() == "sqlite:///var/canary/store.db"
    assert str(settings.ledger.directory) == "var/canary/ledger"
    assert settings.probe_log.url == "var/canary/probe-log"
    assert (settings.api.host, settings.api.port) == ("127.0.0.1", 8080)
    assert settings.schedule.reconcile == "0 3 * * *"
    assert settings.runner.name
    assert (settings.runner.watch_interval, settings.runner.fsync_interval, settings.runner.segment_age) == (
        1,
        0.5,
        60,
    )


CONTRACT = """
clusters:
  - name: prod-eu
    kafka: {bootstrap.servers: "b1:9092,b2:9092"}     # any librdkafka property; security ones included
    topic: {name: durability-canary, partitions: 3, replication_factor: 3, config: {min.insync.replicas: "2"}}
    modes: {idempotent: {interval: 250ms}}
  - name: prod-us
    kafka: {bootstrap_servers: "c1:9092", sasl.password: hunter22}
    topic: {partitions: 5}
store: {url: "postgresql+psycopg://me:hunter33@db/canary"}
runner: {name: canary-0}
api: {host: 127.0.0.1, port: 8081}
"""


def test_the_file_of_the_contract_is_read(yaml_file: Path) -> None:
    yaml_file.write_text(CONTRACT)
    settings = load(yaml_file, NOTHING)
    assert [cluster.bootstrap_servers for cluster in settings.clusters] == ["b1:9092,b2:9092", "c1:9092"]
    assert settings.clusters[0].modes.enabled().keys() == {"idempotent"}
    assert settings.clusters[0].modes.enabled()["idempotent"].interval == 0.25
    assert settings.clusters[1].client_config()["sasl.password"] == "hunter22"
    assert settings.runner.name == "canary-0"
    assert "hunter" not in repr(settings)


def test_json_indented_with_tabs_is_yaml_too(yaml_file: Path) -> None:
    yaml_file.write_text(json.dumps({"api": {"port": 9001}, "clusters": [{"name": "a/"[:1]}]}, indent="\t"))
    assert load(yaml_file, NOTHING).api.port == 9001


def test_empty_sections_are_defaults(yaml_file: Path) -> None:
    yaml_file.write_text("clusters:\n  - name: a\n    topic:\n    modes:\n      idempotent:\n    kafka:\napi:\n")
    assert load(yaml_file, NOTHING).clusters[0].modes.idempotent is not None
    yaml_file.write_text("")
    assert load(yaml_file, NOTHING) == load(None, NOTHING)


def test_the_environment_lies_over_the_file(yaml_file: Path) -> None:
    yaml_file.write_text(CONTRACT)
    environ = {
        "CANARY_API__PORT": "9000",
        "CANARY_CLUSTERS__0__KAFKA__BOOTSTRAP_SERVERS": "d1:9092",
        "CANARY_CLUSTERS__PROD_US__KAFKA__SASL_PASSWORD": "{not yaml",
        "CANARY_CLUSTERS__PROD_US__TOPIC__CONFIG__MIN_INSYNC_REPLICAS": "3",
        "CANARY_CLUSTERS__2__NAME": "third",
        "CANARY_CLUSTERS__2__KAFKA": '{"bootstrap.servers": "e1:9092"}',
        "CANARY_CLUSTERS__2__MODES__IDEMPOTENT__INTERVAL": "5s",
        "CANARY_CACHE": "/nowhere",
        "CANARY_MAVEN_URL": "https://mirror/maven2",
        "CANARY_SERVICE_HOST": "10.0.0.1",
        "OTHER_API__PORT": "1",
    }
    settings = load(yaml_file, environ)
    assert settings.api.port == 9000
    assert [cluster.bootstrap_servers for cluster in settings.clusters] == ["d1:9092", "c1:9092", "e1:9092"]
    assert settings.clusters[1].client_config()["sasl.password"] == "{not yaml"
    assert settings.clusters[1].topic.config["min.insync.replicas"] == "3"
    assert settings.clusters[2].modes.enabled()["idempotent"].interval == 5


def test_clusters_can_come_from_the_environment_alone() -> None:
    whole = load(None, {"CANARY_CLUSTERS": '[{"name": "a", "kafka": {"bootstrap.servers": "x:1"}}]'})
    parts = load(None, {"CANARY_CLUSTERS__0__NAME": "a", "CANARY_CLUSTERS__0__KAFKA__BOOTSTRAP_SERVERS": "x:1"})
    assert whole == parts


def test_an_objective_may_be_changed_or_left_out_and_the_others_stay(yaml_file: Path) -> None:
    yaml_file.write_text("clusters:\n- objectives: {window: 7d, commit: null, produce: {within: 2.5s, target: 0.95}}\n")
    (cluster,) = load(yaml_file, NOTHING).clusters
    declared = {one.name: (one.target, one.bound_s, one.window_s) for one in cluster.objectives.declared()}
    assert declared == {
        "availability": (0.999, None, 604_800),
        "freshness": (0.999, 30, 604_800),
        "produce": (0.95, 2.5, 604_800),
        "end_to_end": (0.99, 1, 604_800),
    }


@pytest.mark.parametrize(
    ("text", "line", "field", "said"),
    [
        ("api:\n  prot: 80\n", 2, "api.prot", "did you mean port?"),
        ("store: {}\napy: {}\n", 2, "apy", "did you mean api?"),
        ("clusters:\n- name: a\n  modes:\n    idempotnet: {}\n", 4, "clusters[0].modes.idempotnet", "mean idempotent?"),
        ("api:\n  port: many\n", 2, "api.port", "whole number"),
        ("api:\n  port: 70000\n", 2, "api.port", "65535"),
        ("api: 5\n", 1, "api", "must be a mapping"),
        ("clusters: {name: a}\n", 1, "clusters", "must be a list"),
        (
            "clusters:\n- name: a\n- name: b\n  kafka: {bootstrap.servers: x:1}\n- name: a\n",
            5,
            "clusters[2].name",
            "own name",
        ),
        ("clusters:\n- name: a b\n", 2, "clusters[0].name", "use letters"),
        ("clusters:\n- {name: a}\n- {name: b}\n", 3, "clusters[1].kafka", "one embedded lab"),
        ("clusters:\n- topic:\n    name: 'a b'\n", 3, "clusters[0].topic.name", "no legal topic name"),
        ("clusters:\n- topic:\n    name: '..'\n", 3, "clusters[0].topic.name", "no legal topic name"),
        ("clusters:\n- topic:\n    partitions: 0\n", 3, "clusters[0].topic.partitions", "Number of partitions"),
        ("clusters:\n- topic:\n    replication_factor: 5\n", 3, "clusters[0].topic.replication_factor", "lab.brokers"),
        (
            "clusters:\n- topic:\n    config:\n      min.insync.replicas: 4\n",
            4,
            'clusters[0].topic.config["min.insync.replicas"]',
            "no write could ever be acknowledged",
        ),
        (
            "clusters:\n- modes:\n    idempotent:\n      interval: 0s\n",
            4,
            "clusters[0].modes.idempotent.interval",
            "greater than 0",
        ),
        (
            "clusters:\n- modes:\n    idempotent:\n      interval: 0.5\n",
            4,
            "clusters[0].modes.idempotent.interval",
            "like 100ms",
        ),
        (
            "clusters:\n- modes: {idempotent: {record_length: 97}}\n",
            2,
            "clusters[0].modes.idempotent.record_length",
            "multiple of 8",
        ),
        (
            "clusters:\n- modes: {idempotent: {record_lengths: [96, 97]}}\n",
            2,
            "clusters[0].modes.idempotent.record_lengths",
            "multiple of 8",
        ),
        (
            "clusters:\n- modes: {plain: {compression: brotli}}\n",
            2,
            "clusters[0].modes.plain.compression",
            "'none', 'gzip', 'snappy', 'lz4' or 'zstd'",
        ),
        ("clusters:\n- modes: {plain: {in_flight: 6}}\n", 2, "clusters[0].modes.plain.in_flight", "equal to 5"),
        (
            "clusters:\n- modes: {idempotent: {}, group: {headers: 1}}\n",
            2,
            "clusters[0].modes.group.headers",
            "no such",
        ),
        (
            "clusters:\n- objectives:\n    produce: {within: 700ms}\n",
            3,
            "clusters[0].objectives.produce.within",
            "set one of 2ms, 5ms, 10ms,",
        ),
        (
            "clusters:\n- objectives:\n    availability: {target: 99.9}\n",
            3,
            "clusters[0].objectives.availability.target",
            "like 0.999",
        ),
        ("clusters:\n- objectives: {window: 10d}\n", 2, "clusters[0].objectives.window", "set one of 7d, 30d"),
        ("clusters:\n- kafka:\n    acks: 1\n", 3, "clusters[0].kafka.acks", "mode 'plain'"),
        (
            "clusters:\n- kafka:\n    sasl.password_file: /no/such\n",
            3,
            'clusters[0].kafka["sasl.password_file"]',
            "cannot be read: No such file",
        ),
        ("store:\n  url: mysql://x\n", 2, "store.url", "neither SQLite nor PostgreSQL"),
        ("schedule:\n  reconcile: at three\n", 2, "schedule.reconcile", "five fields"),
        ("schedule:\n  reconcile: 0 24 * * *\n", 2, "schedule.reconcile", "five fields"),
        ("runner:\n  segment_age: 2m\n", 2, "runner.segment_age", "at most 1m"),
        ("api: {}\nstore: {}\napi: {}\n", 3, "api", "twice"),
        ("api: {port: 1\nstore: [\n", 2, "", "is no YAML"),
        ("- a\n", 1, "", "mapping"),
        ("1: a\n", 1, "1", "no such setting"),
        ("_secrets_dir: /x\n", 1, "_secrets_dir", "no such setting"),
    ],
)
def test_what_is_wrong_is_named_with_file_line_field_and_remedy(
    yaml_file: Path,
    text: str,
    line: int,
    field: str,
    said: str,
) -> None:
    yaml_file.write_text(text)
    error = refusal(yaml_file)
    first = error.problems[0]
    assert (first.source, first.line, first.field) == (str(yaml_file), line, field)
    assert first.remedy
    assert str(error).startswith(f"{yaml_file}:{line}: ")
    assert said in str(error)


@pytest.mark.parametrize(
    ("variable", "value", "field", "said"),
    [
        ("CANARY_API__PROT", "80", "api.prot", "did you mean port?"),
        ("CANARY_AIP__PORT", "80", "aip", "did you mean api?"),
        ("CANARY_API__PORT", "many", "api.port", "whole number"),
        ("CANARY_API__PORT__MORE", "1", "api.port", "must be a whole number"),
        ("CANARY_CLUSTERS__EU__NAME", "x", "clusters", "no 'eu' in clusters"),
        ("CANARY_CLUSTERS__1__NAME", "x", "clusters", "without gaps"),
        ("CANARY_CLUSTERS", "[{", "clusters", "is no YAML"),
        (
            "CANARY_CLUSTERS__0__KAFKA__ISOLATION_LEVEL",
            "read_committed",
            'clusters[0].kafka["isolation.level"]',
            "both",
        ),
    ],
)
def test_a_wrong_variable_is_named(variable: str, value: str, field: str, said: str) -> None:
    error = refusal(None, {variable: value})
    first = error.problems[0]
    assert (first.source, first.line, first.field) == (variable, None, field)
    assert said in str(error)


def test_every_problem_is_told_at_once(yaml_file: Path) -> None:
    yaml_file.write_text("api:\n  port: x\n  hots: y\nlab:\n  brokers: 0\n")
    error = refusal(yaml_file)
    assert [problem.line for problem in error.problems] == [2, 3, 5]
    assert "(and 2 more: canary config check)" in str(error)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in str(refusal(tmp_path / "none.yaml"))
    (tmp_path / "latin").write_bytes(b"api: \xff\n")
    assert "UTF-8" in str(refusal(tmp_path / "latin"))


def test_a_file_that_refers_to_itself_is_no_trap(yaml_file: Path) -> None:
    yaml_file.write_text("api: &a\n  port: *a\n")
    assert refusal(yaml_file).problems[0].field == "api.port"


def test_no_error_shows_a_secret(yaml_file: Path) -> None:
    yaml_file.write_text(
        "clusters:\n- kafka:\n    sasl.password: {hunter22: 1}\n    acks: 0\nstore:\n  url: foo://hunter22@x\n  x: 1\n",
    )
    error = refusal(yaml_file)
    assert len(error.problems) == 3
    assert "hunter22" not in "".join(map(str, error.problems))


def models(model: type[BaseModel], seen: set[type[BaseModel]]) -> set[type[BaseModel]]:
    seen.add(model)
    for described in model.model_fields.values():
        for inner, _ in models_in(described.annotation):
            models(inner, seen)
    return seen


def test_every_field_is_described_with_its_unit() -> None:
    units = ("(duration)", "(bytes)", "(count)", "(number)", "(path)", "(URL)", "(cron", "(host name", "-Xmx")
    found = models(Settings, set())
    assert len(found) >= 11
    for model in found:
        for name, described in model.model_fields.items():
            assert described.description, f"{model.__name__}.{name}"
            if described.annotation in (int, float):
                assert any(unit in described.description for unit in units), f"{model.__name__}.{name}"

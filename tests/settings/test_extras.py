"""What is installed on request only: an installation that lacks it says so in one line, with the remedy."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from canary import extras
from canary.cli import main
from canary.processes import up
from canary.settings import load
from storage.store import Store
from storage.store.database import Database

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

PROJECT = tomllib.loads((Path(__file__).parent.parent.parent / "pyproject.toml").read_text())["project"]


@pytest.fixture
def base_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no extra was installed."""
    find = importlib.util.find_spec
    gone = {name for names in extras.MODULES.values() for name in names}

    def found(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in gone else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", found)


def refused(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_extras_are_those_of_the_project() -> None:
    optional = PROJECT["optional-dependencies"]
    assert set(optional) == {*extras.MODULES, "all"}
    assert optional["all"] == [f"{PROJECT['name']}[{','.join(extras.MODULES)}]"]


@pytest.mark.usefixtures("base_install")
@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("schedule", "spark"),
        ("dump --out {folder}/dump", "spark"),
        ("reconcile --probe-log {folder} --dump {folder} --out {folder}/out", "spark"),
        ("check {folder}/history.jsonl --engine spark", "spark"),
        ("check {folder}/history.jsonl --html {folder}/page.html", "pictures"),
    ],
)
def test_a_command_without_its_extra_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, extra: str
) -> None:
    (tmp_path / "history.jsonl").touch()
    line = refused(*words.format(folder=tmp_path).split(), capsys=capsys)
    assert line.startswith("canary: ")
    assert line.endswith(f": pip install 'kafka-durability-canary[{extra}]'")
    assert [path.name for path in tmp_path.iterdir()] == ["history.jsonl"]


@pytest.mark.usefixtures("base_install")
@pytest.mark.parametrize(
    ("setting", "value", "extra"),
    [
        ("store", "postgresql+psycopg://me:hunter22@db/canary", "postgres"),
        ("probe_log", "s3://bucket/log", "s3"),
        ("probe_log", "gs://bucket/log", "gcs"),
        ("probe_log", "abfs://bucket/log", "abfs"),
        ("probe_log", "webhdfs://namenode:9870/log", "hdfs"),
    ],
)
@pytest.mark.timeout(60)  # one that is not refused goes on for ever
@pytest.mark.parametrize("command", ["up", "run", "serve"])
def test_a_setting_without_its_extra_says_which(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    setting: str,
    value: str,
    extra: str,
    command: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANARY_CLUSTERS__0__KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setenv(f"CANARY_{setting.upper()}__URL", value)
    line = refused(command, capsys=capsys)
    assert line.startswith(f"canary: {setting}.url (")
    assert line.endswith(f": pip install 'kafka-durability-canary[{extra}]'")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("base_install")
@pytest.mark.timeout(60)  # one that is not refused goes on for ever
def test_a_collector_without_its_extra_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANARY_NOTIFY", "[{name: otel, kind: otlp, url: 'http://127.0.0.1:4318/v1/logs'}]")
    line = refused("serve", capsys=capsys)
    assert line.startswith("canary: the receiver otel")
    assert line.endswith(": pip install 'kafka-durability-canary[otlp]'")


@pytest.mark.usefixtures("base_install")
def test_what_needs_no_extra_is_not_refused(tmp_path: Path) -> None:
    with Store(Database(f"sqlite:///{tmp_path}/store.db")) as store:
        store.upgrade()
        assert store.current() is not None
    for url in ("var/canary/probe-log", "file:///var/canary", "memory://log"):
        extras.require_for_url(url, "probe_log.url")


def test_hdfs_by_its_native_library_is_refused_with_the_url_to_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(
        *("reconcile", "--probe-log", "hdfs://namenode:8020/log", "--dump", str(tmp_path), "--out", str(tmp_path)),
        capsys=capsys,
    )
    assert line.startswith("canary: --probe-log (hdfs://…) would need Hadoop's native library")
    assert "webhdfs://NAMENODE:9870/…" in line


@pytest.mark.usefixtures("base_install")
def test_up_without_spark_starts_the_others_and_says_once_how_to_have_the_nights() -> None:
    settings = load(None, {"CANARY_CLUSTERS__0__KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"})
    with capture_logs() as logs:
        assert up.parts(settings) == ("run", "serve")
    assert [entry["event"] for entry in logs] == ["nights_are_not_reconciled"]
    assert "pip install 'kafka-durability-canary[spark]'" in logs[0]["reason"]

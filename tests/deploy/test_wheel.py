"""The wheel, installed in an environment of its own with nothing but the base dependencies of uv.lock."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import httpx
import orjson
import pytest

from canary.extras import MODULES
from simulation.histories.simulator import simulate
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    Canary = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parent.parent.parent
SHIPPED = ("canary", "api", "storage", "spark_reconcile", "canary_receipts")


def uv(*arguments: str | Path) -> None:
    """Run the uv that make uses: the one on PATH, or the one that it has installed."""
    program = shutil.which("uv", path=os.pathsep.join([os.environ["PATH"], str(ROOT / ".uv" / "bin")]))
    assert program, "uv is missing: make install"
    subprocess.run([program, *arguments], cwd=ROOT, check=True, capture_output=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("installed")
    listed, environment = place / "requirements.txt", place / "environment"
    uv("export", "--locked", "--no-emit-project", "--no-default-groups", "--output-file", listed)
    uv("venv", "--python", sys.executable, environment)
    uv("pip", "install", "--python", environment, "--require-hashes", "--requirements", listed)
    uv("pip", "install", "--python", environment, "--no-deps", wheel)
    return environment


@pytest.fixture
def canary(environment: Path, tmp_path: Path) -> Canary:
    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [environment / "bin" / "canary", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    return run


@pytest.fixture
def history(tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"".join(orjson.dumps(operation) + b"\n" for operation in simulate(3, faults=False).history()))
    return path


def test_everything_in_the_packages_is_shipped_and_nothing_else(wheel: Path) -> None:
    names = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = {path for folder in SHIPPED for path in (ROOT / folder).rglob("*") if path.is_file()}
    chart = ROOT / "deploy/helm/kafka-durability-canary/files"
    made = {f"dashboards/generated/grafana/{path.name}" for path in (chart / "dashboards").iterdir()}
    made.add("dashboards/generated/rules.yml")
    assert names == made | {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}
    for kind in ("templates/status.html", "static/canary.css", "m0001_first_tables.py", "script.py.mako", "rules.yml"):
        assert any(name.endswith(kind) for name in names), kind
    assert {f"{package}/py.typed" for package in SHIPPED} <= names
    assert "canary/lab/jars/pinned/kafka-4.1.0.txt" in names


@pytest.mark.dear("builds an sdist and a wheel")
def test_neither_the_simulator_nor_tests_are_in_a_wheel_that_is_made_from_the_sdist(tmp_path: Path) -> None:
    def build(target: str, source: Path) -> Path:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", tmp_path], cwd=source, check=True
        )
        (built,) = tmp_path.glob("*.tar.gz" if target == "sdist" else "*.whl")
        return built

    unpacked = tmp_path / "unpacked"
    with tarfile.open(build("sdist", ROOT)) as sdist:
        sdist.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    tops = {name.partition("/")[0] for name in ZipFile(build("wheel", source)).namelist() if ".dist-info/" not in name}
    assert tops == {*SHIPPED, "dashboards"}


@pytest.mark.dear("builds a wheel, and installs it")
def test_the_base_install_has_no_extra_and_has_its_commands(environment: Path, canary: Canary) -> None:
    modules = [name for names in (*MODULES.values(), ("grafana_foundation_sdk", "pytest")) for name in names]
    code = f"import importlib.util as i; print([name for name in {modules} if i.find_spec(name)])"
    found = subprocess.run([environment / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
    assert canary("version").stdout.startswith("canary 0.")
    assert '"pyarrow"' in canary("version", "--json").stdout
    shown = canary("--help")
    assert shown.returncode == 0
    assert "reconcile" in shown.stdout


def test_a_history_is_checked(canary: Canary, history: Path) -> None:
    done = canary("check", history)
    assert (done.returncode, done.stdout[:5]) == (0, "VALID"), done.stderr


@pytest.mark.dear("a fresh installation compiles and starts what it runs")
def test_a_database_is_migrated(canary: Canary, tmp_path: Path) -> None:
    assert canary("db", "current").stdout.startswith("empty")
    upgraded = canary("db", "upgrade")
    assert upgraded.returncode == 0, upgraded.stderr
    newest = max(path.name for path in (ROOT / "storage/store/migrations/versions").glob("m*.py"))
    assert newest.startswith(f"m{upgraded.stdout.strip()}_")
    assert (tmp_path / "var/canary/store.db").is_file()


@pytest.mark.dear("a fresh installation compiles and starts all of the API")
def test_the_api_serves_pages_and_metrics_and_stops(environment: Path, tmp_path: Path, free_port: int) -> None:
    settings = {"CANARY_API__PORT": str(free_port)}
    with subprocess.Popen(
        [environment / "bin" / "canary", "serve"],
        cwd=tmp_path,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as serving:
        try:
            base = f"http://127.0.0.1:{free_port}"
            until(lambda: httpx.get(f"{base}/healthz").is_success, 30, "/healthz answers")
            assert "Kafka durability canary" in until(
                lambda: (page := httpx.get(f"{base}/")).is_success and page.text, 30, "the page is shown"
            )
            assert "canary_api_store_up 1.0" in httpx.get(f"{base}/metrics").text
            assert httpx.get(f"{base}/static/canary.css").is_success
            serving.send_signal(signal.SIGTERM)
            said, _ = serving.communicate(timeout=60)
        finally:
            serving.kill()
    assert serving.returncode == 0, said
    assert "Traceback" not in said


def test_without_spark_its_commands_say_in_one_line_how_to_have_it(canary: Canary, history: Path) -> None:
    for words in (
        ("check", history, "--engine", "spark"),
        ("reconcile", "--probe-log", "log", "--dump", "dump", "--out", "out"),
    ):
        done = canary(*words)
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.endswith(" needs pyspark and pandas: pip install 'kafka-durability-canary[spark]'")

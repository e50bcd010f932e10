"""``canary check`` as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from simulation.histories.simulator import simulate
from tests.spark_reconcile.test_history_engine import plain

if TYPE_CHECKING:
    from pathlib import Path

CANARY = [sys.executable, "-c", "from canary.cli import main; main()", "check"]


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*CANARY, *arguments], input=stdin, capture_output=True, timeout=360, check=False)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    world = simulate(3, inject=["lost-write", "inconsistent-offsets", "G1c", "duplicate"])
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"".join(orjson.dumps(op) + b"\n" for op in world.history()))
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.jsonl"
    path.write_bytes(b"".join(orjson.dumps(op) + b"\n" for op in simulate(3, faults=False).history()))
    return path


def test_a_valid_history_is_said_to_be_and_ends_with_status_0(good: Path) -> None:
    done = run(str(good))
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(b"VALID")


def test_the_verdict_comes_first_and_the_first_cases_with_their_operations(bad: Path) -> None:
    done = run(str(bad))
    assert done.returncode == 1
    assert done.stdout.startswith(b"NOT VALID: lost-write")
    assert b"send 0" in done.stdout or b"send 1" in done.stdout


def test_json_has_the_promised_shape_from_stdin_too(bad: Path) -> None:
    verdict = orjson.loads(run(str(bad), "--json").stdout)
    assert set(verdict) == {"valid", "anomalies", "counts", "operations"}
    assert verdict["valid"] is False
    assert verdict["counts"] == {name: len(cases) for name, cases in verdict["anomalies"].items()}
    assert verdict["operations"] == bad.read_bytes().count(b"\n")
    assert orjson.loads(run("-", "--json", stdin=bad.read_bytes()).stdout) == verdict


def test_extras_come_when_asked_for(bad: Path) -> None:
    extras = orjson.loads(run(str(bad), "--json", "--extras").stdout)
    assert extras["worst_realtime_lag"]["lag"] == max(point["lag"] for point in extras["realtime_lag"])
    assert extras["unseen"][-1]["unseen"]
    left = {key: count for key, count in extras["unseen"][-1]["unseen"].items() if count}
    assert left == extras["anomalies"]["unseen"][0]["unseen"]
    assert set(extras["consume_counts"]) == {"distribution", "dup_counts"}
    assert len(extras["version_orders"]["0"]) > 10


def test_what_is_allowed_depends_on_the_options(bad: Path) -> None:
    names = {"poll-skip", "nonmonotonic-poll"}
    strict = orjson.loads(run(str(bad), "--json", "--no-ww-deps").stdout)
    assert "G0" not in strict["anomalies"]
    assert "G1c" in strict["anomalies"]
    only_skips = simulate(1, inject=["poll-skip"], faults=False).history()
    text = b"".join(orjson.dumps(op) + b"\n" for op in only_skips)
    assert run("-", "--json", stdin=text).returncode == 1
    lenient = run("-", "--json", "--sub-via", "subscribe", stdin=text)
    assert lenient.returncode == 0
    assert names & set(orjson.loads(lenient.stdout)["anomalies"])


def test_the_page_needs_no_network(bad: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run(str(bad), "--html", str(page)).returncode == 1
    text = page.read_text()
    for title in ("Unseen messages over time", "The log of key", "Latency", "G1c, cycle 1"):
        assert title in text
    assert 'src="http' not in text
    assert "cdn.plot.ly" not in text.replace("https://cdn.plot.ly/un/", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{}\n", b"-, line 1: the operation has no index"),
        (b'{"index":0\n', b"-, line 1: not JSON"),
        (b"#foo{}", b"-, line 1: unknown tag #foo"),
    ],
)
def test_bad_input_ends_with_status_2_and_one_line(text: bytes, said: bytes) -> None:
    done = run("-", stdin=text)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert done.stdout == b""


@pytest.mark.parametrize("arguments", [("missing.jsonl",), ("/",), ("-", "--sub-via", "magic")])
def test_bad_arguments_end_with_status_2_and_one_line(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


def test_an_empty_history_is_not_valid() -> None:
    done = run("-")
    assert done.returncode == 1
    assert b"proves nothing" in done.stdout


def judged_by(engine: str, history: Path) -> tuple[int, dict[str, Any]]:
    """Run the command as a user does; return its exit status and what it printed as JSON."""
    command = [sys.executable, "-m", "canary.cli", "check", str(history), "--engine", engine, "--json"]
    done = subprocess.run(command, capture_output=True, timeout=600, check=False)
    assert b"Traceback" not in done.stderr
    return done.returncode, orjson.loads(done.stdout)


@pytest.mark.spark
def test_both_engines_say_the_same_and_end_alike(bad: Path, good: Path) -> None:
    for history, ends in ((good, 0), (bad, 1)):
        (local_status, local), (status, verdict) = (judged_by(engine, history) for engine in ("local", "spark"))
        assert status == local_status == ends
        cases = [one.pop("anomalies") for one in (local, verdict)]
        assert verdict == local
        for of in cases:
            of.pop("unseen", None)  # the same, its keys in another order
            for cycles in ("G0", "G1c"):  # the same number and length: of some it is a choice which is shown
                of[cycles] = [{"ops": [len(one["ops"])], "edges": []} for one in of.get(cycles, [])]
        assert plain(cases[1]) == plain(cases[0])


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        (b"[{:index 0}]", (), b"line 1: --engine spark reads JSON Lines only"),
        (b"", ("--extras",), b"--engine spark gives neither --extras nor --html"),
        (None, (), b"No such file"),
    ],
)
def test_what_spark_cannot_read_or_give_ends_with_status_2_and_one_line(
    tmp_path: Path, text: bytes | None, arguments: tuple[str, ...], said: bytes
) -> None:
    path = tmp_path / "h"
    if text is not None:
        path.write_bytes(text)
    done = run(str(path), "--engine", "spark", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert done.stdout == b""

"""``canary check`` as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from simulation.histories.simulator import simulate
from tests.spark_reconcile.test_history_engine import plain
from tests.support.command import Ended, canary

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str, stdin: bytes = b"") -> Ended:
    return canary("check", *arguments, stdin=stdin)


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = simulate(3, inject=["lost-write", "inconsistent-offsets", "G1c", "duplicate"])
    path = tmp_path_factory.mktemp("histories") / "bad.jsonl"
    path.write_bytes(b"".join(orjson.dumps(op) + b"\n" for op in world.history()))
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("histories") / "good.jsonl"
    path.write_bytes(b"".join(orjson.dumps(op) + b"\n" for op in simulate(3, faults=False).history()))
    return path


def test_a_valid_history_is_said_to_be_and_ends_with_status_0(good: Path) -> None:
    done = run(str(good))
    assert done.status == 0, done.out
    assert done.out.startswith("VALID")


def test_the_verdict_comes_first_and_the_first_cases_with_their_operations(bad: Path) -> None:
    done = run(str(bad))
    assert done.status == 1
    assert done.out.startswith("NOT VALID: lost-write")
    assert "send 0" in done.out or "send 1" in done.out


def test_json_has_the_promised_shape_from_stdin_too(bad: Path) -> None:
    verdict = orjson.loads(run(str(bad), "--json").out)
    assert set(verdict) == {"valid", "anomalies", "counts", "operations"}
    assert verdict["valid"] is False
    assert verdict["counts"] == {name: len(cases) for name, cases in verdict["anomalies"].items()}
    assert verdict["operations"] == bad.read_bytes().count(b"\n")
    piped = [sys.executable, "-m", "canary.cli", "check", "-", "--json"]
    done = subprocess.run(piped, input=bad.read_bytes(), capture_output=True, timeout=360, check=False)
    assert (done.returncode, orjson.loads(done.stdout), done.stderr) == (1, verdict, b"")


def test_extras_come_when_asked_for(bad: Path) -> None:
    extras = orjson.loads(run(str(bad), "--json", "--extras").out)
    assert extras["worst_realtime_lag"]["lag"] == max(point["lag"] for point in extras["realtime_lag"])
    assert extras["unseen"][-1]["unseen"]
    left = {key: count for key, count in extras["unseen"][-1]["unseen"].items() if count}
    assert left == extras["anomalies"]["unseen"][0]["unseen"]
    assert set(extras["consume_counts"]) == {"distribution", "dup_counts"}
    assert len(extras["version_orders"]["0"]) > 10


def test_what_is_allowed_depends_on_the_options(bad: Path) -> None:
    names = {"poll-skip", "nonmonotonic-poll"}
    strict = orjson.loads(run(str(bad), "--json", "--no-ww-deps").out)
    assert "G0" not in strict["anomalies"]
    assert "G1c" in strict["anomalies"]
    only_skips = simulate(1, inject=["poll-skip"], faults=False).history()
    text = b"".join(orjson.dumps(op) + b"\n" for op in only_skips)
    assert run("-", "--json", stdin=text).status == 1
    lenient = run("-", "--json", "--sub-via", "subscribe", stdin=text)
    assert lenient.status == 0
    assert names & set(orjson.loads(lenient.out)["anomalies"])


def test_the_page_needs_no_network(bad: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run(str(bad), "--html", str(page)).status == 1
    text = page.read_text()
    for title in ("Unseen messages over time", "The log of key", "Latency", "G1c, cycle 1"):
        assert title in text
    assert 'src="http' not in text
    assert "cdn.plot.ly" not in text.replace("https://cdn.plot.ly/un/", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{}\n", "-, line 1: the operation has no index"),
        (b'{"index":0\n', "-, line 1: not JSON"),
        (b"#foo{}", "-, line 1: unknown tag #foo"),
    ],
)
def test_bad_input_ends_with_status_2_and_one_line(text: bytes, said: str) -> None:
    done = run("-", stdin=text)
    assert done.status == 2
    assert said in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""


@pytest.mark.parametrize("arguments", [("missing.jsonl",), ("/",), ("-", "--sub-via", "magic")])
def test_bad_arguments_end_with_status_2_and_one_line(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.status == 2
    assert done.err.count("\n") == 1


def test_an_empty_history_is_not_valid() -> None:
    done = run("-")
    assert done.status == 1
    assert "proves nothing" in done.out


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
        (b"[{:index 0}]", (), "line 1: --engine spark reads JSON Lines only"),
        (b"", ("--extras",), "--engine spark gives neither --extras nor --html"),
        (None, (), "No such file"),
    ],
)
def test_what_spark_cannot_read_or_give_ends_with_status_2_and_one_line(
    tmp_path: Path, text: bytes | None, arguments: tuple[str, ...], said: str
) -> None:
    path = tmp_path / "h"
    if text is not None:
        path.write_bytes(text)
    done = run(str(path), "--engine", "spark", *arguments)
    assert done.status == 2
    assert said in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""

"""``canary salvage`` as a user meets it where something is not as it should be: one line, and a status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from canary.cli.data.salvage import _print
from canary.lab.state import free_ports
from canary.salvage.salvaged import write_manifest
from tests.salvage.logs import batch, folder
from tests.support.command import canary

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of a cluster where nobody answers, and a partition's folder."""
    (port,) = free_ports(1)
    kafka = {"bootstrap.servers": f"127.0.0.1:{port}"}
    (tmp_path / "c.yaml").write_text(json.dumps({"clusters": [{"name": "prod", "kafka": kafka}]}))
    folder(tmp_path, [batch(0, 1, b"a1")])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANARY_CONFIG", "c.yaml")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--dry-run", "give --log-dir DIR and --epochs-from CLUSTER"),
        ("--log-dir t-0 --epochs-from prod", "give either --out DIR or --dry-run"),
        ("--log-dir t-0 --epochs-from prod --out x --dry-run", "give either --out DIR or --dry-run"),
        ("--log-dir t-0 --epochs-from pord --dry-run", "there is no cluster pord; there are: prod"),
        ("--log-dir nowhere --epochs-from prod --dry-run", "--log-dir nowhere: No such file or directory"),
        ("--log-dir t-0 --epochs-from prod --topic u --dry-run", "no log of u; name a broker's log.dir"),
        ("--log-dir t-0 --epochs-from prod --out .", "--out . is not empty; name a new directory"),
        ("replay . --to-topic x", ". holds no manifest.json of canary salvage"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(words: str, said: str) -> None:
    ended = canary("salvage", *words.split())
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_a_cluster_that_does_not_answer_is_status_3_and_nothing_is_left_behind(tmp_path: Path) -> None:
    ended = canary("salvage", "--log-dir", "t-0", "--epochs-from", "prod", "--out", "out")
    assert (ended.status, ended.out) == (3, "")
    assert "cluster prod" in ended.err
    assert list((tmp_path / "out").iterdir()) == []


def manifest(*topics: str) -> dict[str, Any]:
    rows = [{"topic": one, "topic_id": None, "partitions": 1, "max_message_bytes": None} for one in topics]
    return {"format": 1, "cluster": "prod", "topics": rows, "partitions": []}


@pytest.mark.parametrize(
    ("topics", "words", "said"),
    [
        (("t",), "--to-topic t", "--to-topic t is where the records came from"),
        (("t", "u"), "--to-topic u --topic t", "--to-topic u is where the records came from"),
        (("t", "u"), "--to-topic x", "--topic is needed; there are: t, u"),
        (("t",), "--to-topic x --topic u", "--topic u is not there; there are: t"),
        (("t",), "--to-topic x --cluster y", "there is no cluster y"),
    ],
)
def test_a_replay_needs_one_topic_and_never_goes_where_the_records_came_from(
    tmp_path: Path, topics: tuple[str, ...], words: str, said: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    write_manifest(out, manifest(*topics))
    ended = canary("salvage", "replay", "out", *words.split())
    assert ended.status == 2
    assert said in ended.err


def test_people_are_told_what_is_unknown_damaged_and_undecided(capsys: pytest.CaptureFixture[str]) -> None:
    counts = dict.fromkeys(("records", "held", "expired", "committed", "aborted", "undecided", "salvaged"), 7)
    entry = {
        "topic": "orders",
        "partition": 0,
        "counts": counts | {"collisions": None},
        "log": [
            {"epoch": 2, "start": 4, "end": 10, "fate": "gone"},
            {"epoch": 1, "start": 0, "end": 4, "fate": "held"},
        ],
        "damage": [{"file": "0.log", "position": 61, "size": 5, "what": "torn", "offset": 9}],
        "undecided": [{"producer_id": 5, "first": 6, "cluster_says": "commit", "at": 12}],
        "notes": ["[a] note"],
    }
    unknown = {"topic": "orders", "partition": 1, "reason": "no leader"}
    _print(
        {
            "options": {"verify": False},
            "partitions": [entry],
            "total": {},
            "unknown": [unknown],
            "set_aside": ["x-0.1-stray"],
        },
        None,
    )
    said = capsys.readouterr().out
    for words in (
        "unknown",
        "orders-0: offsets 4 to 9 of leader epoch 2 are gone",
        "orders-0: damaged (torn): 0.log at byte 61, 5 bytes, from offset 9 on",
        "orders-0: transaction of producer 5 from offset 6 on: undecided; the cluster says commit at 12",
        "orders-0: [a] note",
        "orders-1: UNKNOWN what is gone: no leader",
        "x-0.1-stray was not read",
        "Nothing was written.",
    ):
        assert words in said

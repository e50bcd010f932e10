"""The command line as a user meets it."""

from __future__ import annotations

import importlib.util
import json
import logging as std_logging
import threading
from typing import TYPE_CHECKING, Annotated, Any

import pytest
import structlog
import typer
import yaml

import canary.cli as command_line
from canary.cli import app, logging, session
from canary.cli.admin import config
from canary.settings import UserError
from tests.support.command import canary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def commands(of: typer.Typer, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for command in of.registered_commands:
        yield (*before, str(command.name))
    for group in of.registered_groups:
        assert group.typer_instance is not None
        if group.typer_instance.info.invoke_without_command is True:
            yield (*before, str(group.name))
        yield from commands(group.typer_instance, (*before, str(group.name)))


@pytest.mark.parametrize("words", sorted(commands(app)), ids=" ".join)
def test_every_command_has_help_with_an_example_and_the_shared_options(words: tuple[str, ...]) -> None:
    status, out, _ = canary(*words, "--help")
    assert status == 0
    assert f"canary {' '.join(words)}" in out.replace("Usage: ", "", 1)
    assert "Example" in out
    assert "--config" in out
    assert "--verbose" in out


def test_the_version_is_told() -> None:
    assert canary("version").out.startswith("canary 0.")
    assert {"canary", "python", "confluent-kafka"} <= json.loads(canary("version", "--json").out).keys()


def test_config_show_hides_secrets_and_fills_in_defaults(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("clusters:\n- kafka: {bootstrap.servers: x:1, sasl.password: hunter22}\n")
    for where in (("--config", "c.yaml", "config", "show"), ("config", "show", "--config", "c.yaml")):
        status, out, _ = canary(*where)
        assert status == 0
        assert "hunter22" not in out
        shown = yaml.safe_load(out)
        assert shown["clusters"][0]["kafka"] == {"bootstrap.servers": "x:1", "sasl.password": "**********"}
        assert shown["api"]["port"] == 8080
    assert json.loads(canary("config", "show", "--json").out)["lab"]["brokers"] == 3


def test_what_config_show_says_can_be_read_again(tmp_path: Path) -> None:
    shown = canary("config", "show").out
    (tmp_path / "again.yaml").write_text(shown)
    assert canary("config", "show", "--config", "again.yaml").out == shown


def test_config_check_names_file_line_field_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("api:\n  prot: 1\nlab:\n  brokers: 0\n")
    status, out, err = canary("config", "check", "--config", "c.yaml")
    assert (status, out) == (2, "")
    assert err.splitlines()[0] == "c.yaml:2: api.prot: there is no such setting; did you mean port?"
    assert len(err.splitlines()) == 2
    status, out, _ = canary("config", "check", "--config", "c.yaml", "--json")
    assert status == 2
    assert [one["line"] for one in json.loads(out)["problems"]] == [2, 4]


def test_config_check_asks_librdkafka_too(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "clusters:\n- name: a\n  kafka:\n    bootstrap_servers: x:1\n    securty_protocol: SSL\n",
    )
    status, _, err = canary("config", "check", "--config", "c.yaml")
    assert status == 2
    assert err.startswith('c.yaml:5: clusters[0].kafka["securty.protocol"]: librdkafka refuses it: No such config')


def test_config_check_tries_out_the_place_of_the_probe_log(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "c.yaml").write_text(f"clusters: []\nprobe_log:\n  url: {tmp_path}/file/log\n")
    status, out, err = canary("config", "check", "--config", "c.yaml")
    assert (status, out) == (2, "")
    assert err.startswith("c.yaml:3: probe_log.url: no file can be written, read and deleted at ")
    assert err.endswith("; name a place that runner, scheduler and API can all reach, and may write to\n")


@pytest.mark.parametrize(
    ("scheme", "extra", "driver"),
    [("s3", "s3", "s3fs"), ("gs", "gcs", "gcsfs"), ("abfs", "abfs", "adlfs"), ("webhdfs", "hdfs", "requests")],
)
def test_config_check_names_a_missing_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, extra: str, driver: str
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == driver else found(name, *more))
    (tmp_path / "c.yaml").write_text(f"probe_log: {{url: '{scheme}://bucket/log'}}\n")
    status, _, err = canary("config", "check", "--config", "c.yaml")
    assert status == 2
    assert err == (
        f"c.yaml:1: probe_log.url: the probe log ({scheme}://…) needs {driver}; "
        f"pip install 'kafka-durability-canary[{extra}]'\n"
    )


def test_config_check_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    monkeypatch.setattr(config, "_PATIENCE_S", 0.1)
    monkeypatch.setattr("storage.probe_log.shipping.try_out", lambda _: answer.wait(60))
    (tmp_path / "c.yaml").write_text(f"probe_log: {{url: {tmp_path}/log}}\n")
    status, _, err = canary("config", "check", "--config", "c.yaml")
    answer.set()
    assert (status, "does not answer within 0.1 s" in err) == (2, True)


def test_good_settings_are_called_good(tmp_path: Path) -> None:
    assert canary("config", "check") == (0, "defaults: good; clusters: lab\n", "")
    assert not (tmp_path / "var").exists()
    assert json.loads(canary("config", "check", "--json").out) == {"valid": True, "problems": []}


def test_an_error_of_the_user_is_one_line_and_a_status(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("api:\n  port: many\n")
    status, _, err = canary("config", "show", "--config", "c.yaml")
    assert status == 2
    assert err.startswith("canary: c.yaml:2: api.port: must be a whole number; Port to listen on")
    assert err.count("\n") == 1


def test_a_wrong_command_is_bad_input() -> None:
    assert canary("confg").status == 2


@pytest.fixture(name="fake")
def _fake(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One command, "act", that does what the list's last member says."""
    seen: list[Any] = []
    fake = typer.Typer(pretty_exceptions_enable=False)
    fake.callback()(session.remember_global_options)

    def act(name: Annotated[str, typer.Argument()] = "x", *, json: session.JsonOption = False) -> None:
        """Act."""
        error = seen.pop()
        seen.append((name, json, session.current()))
        if error:
            raise error

    fake.command("act")(session.with_shared_options(act))
    monkeypatch.setattr(command_line, "app", fake)
    return seen


def test_shared_options_stand_on_either_side(fake: list[Any]) -> None:
    for words in (["--config", "f", "-v", "act", "n", "--json"], ["act", "n", "--json", "--config", "f", "-v"]):
        fake.append(None)
        assert canary(*words).status == 0
        name, as_json, seen = fake.pop()
        assert (name, as_json, str(seen.config), seen.verbosity) == ("n", True, "f", 1)


def test_an_error_brings_its_own_status(fake: list[Any]) -> None:
    fake.append(UserError("another runner\nis alive", exit_status=4))
    assert canary("act") == (4, "", "canary: another runner is alive\n")


def test_a_bug_is_never_taken_for_a_violation(fake: list[Any]) -> None:
    logging.hide(["hunter22"])
    fake.append(RuntimeError("oh hunter22"))
    status, _, err = canary("act")
    assert status == 70
    assert "RuntimeError: oh ****" in err
    assert "hunter22" not in err


def test_logs_are_json_lines_without_secrets_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    logging.hide(['hun"ter22'])
    logging.configure(0, terminal=False)
    log = structlog.get_logger("canary.somewhere")
    log.info("client_made", config={"sasl.password": 'hun"ter22'}, count=3)
    log.debug("not_said")
    std_logging.getLogger("alembic").warning('url %s has hun"ter22', 1)
    std_logging.getLogger("alembic").info("not said")
    try:
        raise ValueError('hun"ter22')  # noqa: TRY301  # a traceback is what is wanted
    except ValueError:
        log.exception("failed")
    lines = capsys.readouterr().err.splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["event"] for event in events] == ["client_made", "url 1 has **********", "failed"]
    assert (events[0]["level"], events[0]["count"], events[0]["logger"]) == ("info", 3, "canary.somewhere")
    assert "ValueError" in events[2]["exception"]
    assert "ter22" not in "".join(lines)


def test_logs_are_for_people_on_a_terminal_and_more_with_v(capsys: pytest.CaptureFixture[str]) -> None:
    logging.hide(["hunter22"])
    logging.configure(1, terminal=True)
    structlog.get_logger("canary.x").debug("said", password="hunter22")  # noqa: S106  # hidden is what is asked
    err = capsys.readouterr().err
    assert "said" in err
    assert "hunter22" not in err
    assert not err.startswith("{")


def test_settings_loaded_by_a_command_hide_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_CLUSTERS__0__KAFKA__SASL_PASSWORD", "hunter22")
    session.load_settings()
    assert logging.scrubbed("x hunter22 y") == "x ********** y"


def test_the_database_is_upgraded_and_its_schema_told(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"store: {{url: 'sqlite:///{tmp_path}/store.db'}}\n")
    status, out, _ = canary("db", "upgrade", "--config", "c.yaml")
    assert status == 0
    assert out.strip()
    assert canary("db", "current", "--config", "c.yaml").out == out
    assert json.loads(canary("db", "current", "--config", "c.yaml", "--json").out) == {"revision": out.strip()}

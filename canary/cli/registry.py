"""Every command, in the order in which --help shows them."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import typer

from canary.cli import session


@dataclass(frozen=True, slots=True)
class Command:
    """A command ``name``, or a group of commands.

    Attributes:
        name: as it is typed.
        module: below canary.cli; it has a function called as the command, which the help is taken from.
        group: by name, the functions of a group's commands; empty for a command.
        help: of a group.
        alone: the group's name is a command as well.
    """

    name: str
    module: str
    group: Mapping[str, str] = field(default_factory=dict)
    help: str | None = None
    alone: bool = False

    def register(self, app: typer.Typer) -> None:
        """Add it to the command line."""
        if not self.group:
            app.command(self.name)(self._function(self.name))
            return
        group = typer.Typer(no_args_is_help=True, invoke_without_command=self.alone)
        if self.alone:
            group.callback()(self._function(self.name))
        for name, function in self.group.items():
            group.command(name)(self._function(function))
        app.add_typer(group, name=self.name, help=self._function(self.name).__doc__ if self.alone else self.help)

    def _function(self, name: str) -> Callable[..., Any]:
        return session.with_shared_options(getattr(importlib.import_module(f"canary.cli.{self.module}"), name))


COMMANDS: Final = (
    Command("up", "operate.services"),
    Command("run", "operate.services"),
    Command("serve", "operate.services"),
    Command("schedule", "operate.services"),
    Command("smoke", "operate.smoke"),
    Command("check", "data.check"),
    Command("dump", "data.spark"),
    Command("reconcile", "data.spark"),
    Command("salvage", "data.salvage", {"replay": "replay"}, alone=True),
    Command("digest", "data.spark"),
    Command("receipts", "data.receipts", {"check": "check"}, "Receipts that applications keep of their own records."),
    Command("audit", "admin.audit"),
    Command("replicas", "admin.replicas", {"compare": "compare"}, "Hold the replicas of a topic against each other."),
    Command(
        "topics", "admin.topics", {"plan": "plan", "apply": "apply"}, "Show, then make, what the probe topics need."
    ),
    Command(
        "lab",
        "operate.lab",
        {
            name: name
            for name in (
                "up",
                "down",
                "status",
                "kill",
                "pause",
                "resume",
                "restart",
                "cut",
                "wipe",
                "partition",
                "fetch",
            )
        },
        "A Kafka cluster of real brokers on this machine, to try things on.",
    ),
    Command(
        "drill",
        "operate.drill",
        {"list": "list_drills", "run": "run", "all": "run_all"},
        "Break a throwaway cluster on purpose, and see the canary find it.",
    ),
    Command("forget", "admin.forget"),
    Command("export", "data.export"),
    Command(
        "alert",
        "admin.alert",
        {"test": "ring", "rules": "rules"},
        "Test whether an alert reaches the people on call; print rules for the clusters of the settings.",
    ),
    Command(
        "token", "admin.token", {"create": "create", "list": "list_tokens", "revoke": "revoke"}, "Who may use the API."
    ),
    Command("config", "admin.config", {"show": "show", "check": "check"}, "Show or check the settings."),
    Command(
        "db",
        "admin.db",
        {"upgrade": "upgrade", "downgrade": "downgrade", "current": "current"},
        "The schema of the store's database.",
    ),
    Command("version", "admin.version"),
)

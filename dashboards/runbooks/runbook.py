"""What a runbook consists of: six sections of steps, and the commands in them, as data."""

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from api.pages.placeholders import BLANK

Where = Literal["tools", "broker", "canary", "api", "prometheus"]
WHERE: Final[dict[Where, str]] = {
    "tools": "Where Kafka's tools are",
    "broker": "On the broker's machine",
    "canary": "Where the canary runs",
    "api": "Anywhere: the canary's API",
    "prometheus": "In Prometheus or Grafana",
}
"""Where a command is given, in words."""
SECTIONS: Final = {
    "means": "What it means",
    "real": "Is it real?",
    "stop": "Stop the bleeding",
    "extent": "Find the extent",
    "recover": "Recover",
    "tell": "Tell whom",
}
"""The sections of every runbook, in the order in which they are needed."""
PREPARE: Final = (
    (
        "Commands take the brokers' address, the API's and a token from the shell: "
        "`export BOOTSTRAP=broker-1:9092 CANARY=https://canary.example`."
    ),
    (
        "Where brokers want authentication add `--command-config client.properties` to Kafka's tools (`--admin.config` "
        "to kafka-leader-election.sh, `--consumer.config` to kafka-console-consumer.sh); where the API does, "
        '`-H "Authorization: Bearer $TOKEN"` to curl. The canary\'s commands take `--config FILE`, or CANARY_CONFIG.'
    ),
    "What stands in braces is filled in on the canary's page of the runbook; a link from an alert brings it along.",
    "The tools are those of Kafka 4.1. Commands with a tick were tried on its brokers by our tests.",
)
"""What holds for every command, in Markdown that has nothing but code in it."""
OWN: Final = re.compile(r"\{(alert|kind)\}")
"""Blanks that are filled when the page is made: the alert's name and its kind of violation."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is copied from a runbook.

    ``text`` takes brokers and API from the environment ($BOOTSTRAP, $CANARY), and has blanks like {topic}.

    Attributes:
        text: of the command, or a PromQL expression.
        where: it is given.
        shows: a word of its output on the lab, where a test gives it to real brokers; "": no test can (it needs what
            the lab has not, or harms).
    """

    text: str
    where: Where
    shows: str = ""

    @property
    def runnable(self) -> bool:
        """Whether it was tried on the lab."""
        return bool(self.shows)

    def as_json(self, alert: str, kind: str) -> dict[str, Any]:
        """Return it as the API serves it, with the alert's own blanks filled."""
        own = {"alert": alert, "kind": kind}
        text = OWN.sub(lambda blank: own[blank[1]], self.text)
        return {"text": text, "where": self.where, "place": WHERE[self.where], "runnable": self.runnable}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to know or to do, in words, and the commands of it."""

    text: str
    commands: tuple[Command, ...] = ()

    def __init__(self, text: str, *commands: Command) -> None:
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "commands", commands)

    def as_json(self, alert: str, kind: str) -> dict[str, Any]:
        """Return it as the API serves it."""
        return {"text": self.text, "commands": [one.as_json(alert, kind) for one in self.commands]}


Steps = tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runbook:
    """What to do about some alerts that are alike; each adds its own meaning and first step.

    Attributes:
        title: of what these alerts have in common.
        kinds: of violations that it is for, with an alert or without.
        alerts: that are about no kind of violation.
        means: background that the alert's own words do not give.
        real: how to tell it from a mistake of the canary.
        stop: what keeps it from becoming worse, and what must not be done.
        extent: what else is concerned.
        recover: what was lost, or the state before.
        tell: who has to know what.
    """

    title: str
    kinds: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    means: Steps
    real: Steps
    stop: Steps
    extent: Steps
    recover: Steps
    tell: Steps

    def __post_init__(self) -> None:
        """Refuse a runbook that leaves a section out.

        Raises:
            ValueError: it names the runbook, and where it is written.
        """
        for name, heading in SECTIONS.items():
            if not getattr(self, name):
                raise ValueError(
                    f"the runbook {self.title!r} has nothing under {heading!r}: give it `{name}`, in its module of "
                    "dashboards/runbooks"
                )

    def sections(self, alert: str, kind: str) -> list[dict[str, Any]]:
        """Return the sections as the API serves them."""
        return [
            {"title": heading, "steps": [step.as_json(alert, kind) for step in getattr(self, name)]}
            for name, heading in SECTIONS.items()
        ]

    def commands(self) -> list[Command]:
        """Return every command, in the order of the page."""
        return [command for name in SECTIONS for step in getattr(self, name) for command in step.commands]


def blanks(sections: list[dict[str, Any]]) -> list[str]:
    """Return the names of the blanks in the commands of these sections, each once, in the order of the page."""
    texts = [command["text"] for section in sections for step in section["steps"] for command in step["commands"]]
    return list(dict.fromkeys(blank[1] for text in texts for blank in BLANK.finditer(text)))

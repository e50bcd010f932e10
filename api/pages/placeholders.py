"""The blanks in the commands of runbooks, such as {topic}, and what may be put into them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9._:@-]{0,248}"
_NUMBER: Final = r"[0-9]{1,19}"
_PATH: Final = r"/[A-Za-z0-9._/-]{1,248}"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A blank: what belongs there, and the pattern of it.

    Each character that a pattern admits stands for itself in a shell, in PromQL and in a URL. What does not match is
    not filled in: a link to a runbook cannot put another command into it.
    """

    meaning: str
    pattern: str


PLACEHOLDERS: Final = {
    "cluster": Placeholder("name of the cluster in the canary's settings", _NAME),
    "topic": Placeholder("topic", _NAME),
    "partition": Placeholder("number of the partition", r"[0-9]{1,9}"),
    "offset": Placeholder("first offset that is in question", _NUMBER),
    "broker": Placeholder("id of the broker", _NUMBER),
    "log_dir": Placeholder("the broker's log directory (log.dirs)", _PATH),
    "keep": Placeholder("an empty directory for copies, on a disk with room", _PATH),
    "group": Placeholder("consumer group", _NAME),
    "transactional_id": Placeholder("transactional.id of the producer", _NAME),
    "violation": Placeholder("id of the violation", _NAME),
    "incident": Placeholder("id of the incident", _NAME),
}
"""By their names, in the order of the form on a runbook's page."""
BLANK: Final = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
"""A blank in a text; other braces, as in PromQL and JSON, are none."""


def fitting(given: Mapping[str, str]) -> dict[str, str]:
    """Return what of ``given`` (name to value) may be filled in."""
    return {
        name: value
        for name, one in PLACEHOLDERS.items()
        if (value := given.get(name, "")) and re.fullmatch(one.pattern, value, re.ASCII)
    }


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with the blanks filled whose values are known; ``values`` come from fitting()."""
    return BLANK.sub(lambda blank: values.get(blank[1], blank[0]), text)

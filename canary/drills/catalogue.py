"""Every drill, by name: a file in one of the rooms beside this module that has a ``DRILL``."""

import hashlib
import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

import canary.drills
from canary.drills.drill import Drill

_RECORDED: Final = "Only `canary check` and the night decide it, from what was recorded."
_OTHERS: Final = (
    "It is about groups and transactions of applications, of which a drill has none: tests/watching has it on brokers."
)
_MIRRORED: Final = (
    "It needs two clusters and MirrorMaker 2, and a drill has one: tests/watching/test_mirrormaker has it on both."
)
UNDRILLED: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("int-send-skip", "int-nonmonotonic-send", "int-poll-skip", "int-nonmonotonic-poll"), _RECORDED
        ),
        **dict.fromkeys(("group-stuck", "group-reset", "group-offsets-expired", "hanging-transaction"), _OTHERS),
        "replica-divergence": "No fault of a cluster makes it: a replica is cut on its disk by hand, as "
        "tests/watching does.",
        **dict.fromkeys(("mirror-gap", "mirror-offset-skips", "mirror-copies"), _MIRRORED),
        **dict.fromkeys(
            ("record-lost", "record-changed"),
            "They are about topics of applications, and found at night: tests/spark_reconcile has them on brokers.",
        ),
        "topic-deleted": "It is mere info about a topic that only a pattern matches: tests/watching has it.",
        "suspected-loss": "It needs a leader that answers everything but fetches, which no fault of a lab makes: "
        "tests/anomalies has it.",
        "unexplained-expiry": "It says what is not known of a log with retention.bytes, which no drill's topic has.",
        "unseen": "The running canary measures it, with alerts of its own; it is a violation at a history's end only.",
        "leader-epoch-regression": "Tried and not raised: a controller that is given an old disk elects with epochs "
        "that are higher again, or leaves partitions that take no writes.",
    }
)
"""Kinds of the catalogue of anomalies that no drill must say, and why; whoever writes a drill takes its kinds out."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A drill with what its file says.

    Attributes:
        name: of the file.
        room: the package that groups it.
        story: the file's docstring.
        drill: what it is made of.
        digest: of the file; a result holds for the drill as it was then.
    """

    name: str
    room: str
    story: str
    drill: Drill
    digest: str = ""


@cache
def drills() -> MappingProxyType[str, Entry]:
    """Return every drill by its name, room by room."""
    return MappingProxyType({one.name: one for one in _found()})


def _found() -> Iterator[Entry]:
    rooms = (one.name for one in pkgutil.iter_modules(canary.drills.__path__) if one.ispkg)
    for room in sorted(rooms):
        package = importlib.import_module(f"canary.drills.{room}")
        for file in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{file.name}")
            if isinstance(drill := getattr(module, "DRILL", None), Drill):
                digest = hashlib.blake2b(inspect.getsource(module).encode(), digest_size=6).hexdigest()
                yield Entry(file.name.replace("_", "-"), room, (module.__doc__ or "").strip(), drill, digest)

"""Where chance comes from in tests: one seed for the session, and how many cases are tried.

The seed is fresh unless ``pytest --seed N`` gives one; pytest prints it at its head and below each failure, with the
case that failed. ``--explore N`` tries N times as many cases (0.2: a fifth). hypothesis takes both from here
(tests/conftest.py), so that the printed options repeat its examples, too.
"""

from __future__ import annotations

import itertools
import os
import random
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import hypothesis

if TYPE_CHECKING:
    from collections.abc import Iterator

RANGE = 2**31
"""Seeds are below."""


@dataclass
class Session:
    """What the options say, and what is being tried.

    Attributes:
        seed: Everything that is drawn follows from it.
        scale: So many times as many cases as usual.
        case: The seed of the case that is being tried, None outside of ``cases``.
    """

    seed: int
    scale: float = 1.0
    case: int | None = None

    @property
    def options(self) -> str:
        """The options that repeat this session's cases."""
        return f"--seed {self.seed}" + (f" --explore {self.scale:g}" if self.scale != 1 else "")


SESSION = Session(secrets.randbelow(RANGE))


def begin(seed: int | None, scale: float) -> None:
    """Take what the options say, and tell hypothesis; the database and deadlines are off.

    hypothesis shrinks what fails, unless CANARY_NO_SHRINKING is set: tests.mutations only asks whether a test fails.
    """
    if seed is not None:
        SESSION.seed = seed
    SESSION.scale = scale
    shrinking = "CANARY_NO_SHRINKING" not in os.environ
    hypothesis.settings.register_profile(
        "explore",
        hypothesis.settings.get_profile("default"),
        max_examples=examples(100),
        derandomize=False,  # hypothesis itself turns it on where CI is set
        database=None,
        deadline=None,
        print_blob=False,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],  # a busy machine
        phases=[
            phase
            for phase in hypothesis.Phase
            if shrinking or phase not in (hypothesis.Phase.shrink, hypothesis.Phase.explain)
        ],
    )
    hypothesis.settings.load_profile("explore")


def examples(count: int) -> int:
    """Return how many examples hypothesis is to try where ``count`` are usual."""
    return max(min(count, 1), round(count * SESSION.scale))


def cases(name: str, count: int, *known: int) -> Iterator[int]:
    """Yield the seeds of ``known`` cases (each once found a defect), then ``count`` others, times the scale.

    They follow from the session's seed and ``name`` alone, whichever tests run with it. The one that was yielded last
    is shown if the test fails.
    """
    drawn = random.Random(f"{SESSION.seed} {name}")  # noqa: S311  # tests want to be repeated, not to be secret
    for seed in itertools.chain(known, (drawn.randrange(RANGE) for _ in range(examples(count)))):
        SESSION.case = seed
        yield seed
    SESSION.case = None

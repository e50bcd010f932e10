"""Drills on real brokers: the short ones, and all of them with --long. Kinds, places, silence count; times do not.

In the short form one is left out that ``canary drill run`` performs in tests/e2e/test_drill_pages, and only one is
performed after its control.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from canary.drills.catalogue import Entry, drills
from canary.drills.report import document
from canary.drills.rig import performance
from canary.drills.rig.installation import Installation
from canary.drills.rig.result import attempt
from canary.drills.stage import Stage
from canary.lab import Lab, LabError
from tests.e2e.test_drill_pages import DRILL
from tests.support import forks, labs
from tests.support.stalls import NotInTimeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.drills.rig.performance import Stagehand

ALIKE = Stage(lab=labs.PROFILES["quick"])
"""The session's quick lab as a stage: its racks are in no drill's way."""

CONTROLLED = "duplicate"
"""The one whose control costs least."""

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.quick]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Perform the short ones, or all."""
    every = metafunc.config.getoption("--long")
    wanted = [entry for name, entry in drills().items() if every or (entry.drill.short and name != DRILL)]
    metafunc.parametrize("name", [entry.name for entry in sorted(wanted, key=own)])


def alike(stage: Stage) -> bool:
    return ALIKE.same_brokers(stage if stage.lab else replace(stage, lab=ALIKE.lab))


def own(entry: Entry) -> bool:
    """Tell whether a drill wants brokers of its own: those come last."""
    return not alike(entry.drill.stage)


@contextmanager
def shared_where_alike(stage: Stage, hand: Stagehand) -> Iterator[Lab]:
    """Yield the session's quick lab, cleared, where that does for a stage; or else brokers of its own."""
    if not alike(stage):
        labs.discard()
        with performance.lab(stage, hand) as fresh:
            yield fresh
        return
    brokers = labs.shared("quick", lambda: hand.directory / "lab")
    performance.clear(brokers)
    yield brokers


def test_what_a_drill_breaks_is_said_where_it_is_and_nothing_else(
    name: str, tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Installation, "begun", forks.canary)
    lines: list[str] = []
    control = pytestconfig.getoption("--long") or name == CONTROLLED
    result = attempt(
        drills()[name], threading.Event(), lines.append, tmp_path, with_control=control, brokers=shared_where_alike
    )
    told = "\n".join([document.text(result), *lines])
    if result.impossible:
        raise LabError(told)
    if result.complaints and all("missed: nothing was said" in one for one in result.complaints):
        raise NotInTimeError(told)
    assert not result.complaints, told

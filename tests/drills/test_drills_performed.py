"""Drills on real brokers: the short ones, and all of them with --long. Kinds, places, silence count; times do not."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from canary.drills.catalogue import drills
from canary.drills.report import document
from canary.drills.rig.result import attempt
from canary.lab import LabError
from tests.support.stalls import NotInTimeError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.quick]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Perform the short ones, or all."""
    every = metafunc.config.getoption("--long")
    metafunc.parametrize("name", [name for name, entry in drills().items() if entry.drill.short or every])


def test_what_a_drill_breaks_is_said_where_it_is_and_nothing_else(name: str, tmp_path: Path) -> None:
    lines: list[str] = []
    result = attempt(drills()[name], threading.Event(), lines.append, tmp_path)
    told = "\n".join([document.text(result), *lines])
    if result.impossible:
        raise LabError(told)
    if result.complaints and all("missed: nothing was said" in one for one in result.complaints):
        raise NotInTimeError(told)
    assert not result.complaints, told

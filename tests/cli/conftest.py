"""Commands see the settings that a test gives them, and no others; nothing of them stays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.command import logging_as_before

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in [name for name in os.environ if name.startswith("CANARY_")]:
        monkeypatch.delenv(variable)
    with logging_as_before():
        yield

"""A store of our own, and a real receiver of what is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storage.store import Store
from tests.support import stores
from tests.support.receiving import Receiving, receiving

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(name="store")
def _store(store_url: str) -> Iterator[Store]:
    with Store.connect(store_url, timeout=60) as connected:
        stores.upgrade(connected)
        yield connected


@pytest.fixture(name="there")
def _there() -> Iterator[Receiving]:
    with receiving() as there:
        yield there

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storage.store import Store
from tests.support import stores

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A migrated store."""
    with Store.connect(store_url, timeout=60) as connected:
        stores.upgrade(connected)
        yield connected

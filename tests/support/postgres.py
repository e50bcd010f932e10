"""The PostgreSQL server of drills, in memory where there is room: each database is 300 files, and each test has one.

Its data is not below pytest's own temporary directory: started by root it runs as another user, and every other pytest
that begins meanwhile closes that directory to others again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from canary.drills.rig.postgres import Postgres

__all__ = ["Postgres", "server"]

_MEMORY = Path("/dev/shm")  # noqa: S108  # not a file of a known name
_ROOM = 4 << 30


def server() -> Postgres:
    """Return one that does not run yet."""
    return Postgres(_MEMORY if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ROOM else None)

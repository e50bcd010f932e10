"""Notices that credentials in files have changed, so that every client can be replaced."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from canary.threads import system

LOOK_S = 5.0


class CredentialFiles:
    """The files of one cluster's credentials, looked at every ``every_s`` seconds."""

    def __init__(self, files: Sequence[Path], every_s: float = LOOK_S) -> None:
        self._files = list(files)
        self._every_s = every_s
        self._due = 0.0
        self._known = self._look()
        self._seen = self._known

    def changed(self) -> bool:
        """Return whether the contents have changed since the last call that returned True.

        A certificate and its key are two files, written one after the other: a change counts once two looks in a row
        saw the same.
        """
        now = system.monotonic()
        if not self._files or now < self._due:
            return False
        self._due = now + self._every_s
        before, self._seen = self._seen, self._look()
        if self._seen == self._known or self._seen != before or None in self._seen:
            return False
        self._known = self._seen
        return True

    def _look(self) -> tuple[bytes | None, ...]:
        return tuple(_digest(path) for path in self._files)


def _digest(path: Path) -> bytes | None:
    """Return a digest of a file; None while it cannot be read or is empty."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return hashlib.sha256(content).digest() if content else None

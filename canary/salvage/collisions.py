"""Which keys have a newer record: their digests, in a private temporary database that spills to disk.

SQLite deletes it with its connection, and keeps a few MB of it in memory. A key is 16 bytes of BLAKE2b.
"""

import hashlib
import sqlite3


class Keys:
    """The keys of one partition's records that the cluster no longer has, and which of them it has written since."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("CREATE TABLE keys (digest BLOB PRIMARY KEY, newest INT DEFAULT -1) WITHOUT ROWID")
        self._database.execute("BEGIN")
        self._pending: dict[int, dict[bytes, int]] = {}
        self.empty = True

    def close(self) -> None:
        """Delete the database."""
        self._database.close()

    def add(self, key: bytes) -> None:
        """Take the key of a record that may be salvaged."""
        self._database.execute("INSERT OR IGNORE INTO keys (digest) VALUES (?)", (_digest(key),))
        self.empty = False

    def written(self, key: bytes, offset: int, transaction_of: int | None = None) -> None:
        """Take a record of the cluster with this key; one in a transaction counts once its producer has committed."""
        digest = _digest(key)
        if transaction_of is None:
            self._newest(digest, offset)
        elif self._database.execute("SELECT 1 FROM keys WHERE digest = ?", (digest,)).fetchone():
            self._pending.setdefault(transaction_of, {})[digest] = offset

    def ended(self, producer_id: int, *, committed: bool) -> None:
        """Take the marker of a transaction of the cluster."""
        for digest, offset in self._pending.pop(producer_id, {}).items():
            if committed:
                self._newest(digest, offset)

    def _newest(self, digest: bytes, offset: int) -> None:
        self._database.execute("UPDATE keys SET newest = max(newest, ?) WHERE digest = ?", (offset, digest))

    def has_newer(self, key: bytes, offset: int) -> bool:
        """Return whether the cluster has a committed record of this key at an offset, or behind it."""
        question = "SELECT 1 FROM keys WHERE digest = ? AND newest >= ?"
        return bool(self._database.execute(question, (_digest(key), offset)).fetchone())


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=16).digest()

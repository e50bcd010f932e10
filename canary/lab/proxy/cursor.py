"""Reads an answer of a broker, field by field."""

import struct


class Cursor:
    """Reads an answer from behind its correlation id; ``flexible``: lengths are varints, and tagged fields follow."""

    def __init__(self, frame: bytes, *, flexible: bool) -> None:
        self.at = 8  # behind length and correlation id
        self.flexible = flexible
        self._frame = frame
        self.tags()

    def number(self, code: str) -> int:
        """Return the next number, of a type that `struct` names."""
        (value,) = struct.unpack_from(">" + code, self._frame, self.at)
        self.at += struct.calcsize(">" + code)
        return int(value)

    def length(self, code: str) -> int:
        """Return the next length, which is a number of this type where it is no varint; -1: null."""
        return self._varint() - 1 if self.flexible else self.number(code)

    def bytes(self, count: int) -> bytes:
        """Return the next bytes."""
        begin = self.at
        self.at += max(count, 0)
        if self.at > len(self._frame):
            raise IndexError
        return self._frame[begin : self.at]

    def tags(self) -> None:
        """Pass over tagged fields, which a version that is not flexible does not have."""
        for _ in range(self._varint() if self.flexible else 0):
            self._varint()
            self.bytes(self._varint())

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

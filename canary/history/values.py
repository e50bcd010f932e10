"""Codes for values and keys: small integers are their own code, everything else gets one."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from canary.history.operation import Scalar

LIMIT = 1 << 62
"""Integers from -LIMIT (exclusive) to LIMIT (exclusive) are their own code; -LIMIT - n is the n-th other value."""

_SCALARS = frozenset({str, int, float, bool})
_KEYS = frozenset({str, int})

Codes = NDArray[np.int64]


class IrregularError(Exception):
    """The fast way does not apply: look at each operation by itself."""


class KeyCodes(dict[object, int]):
    """Key (text or integer) to its number, given at first sight; the integer 1 is the text "1"."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __missing__(self, key: object) -> int:
        """Give ``key`` the next number, or that of its text."""
        name = str(key)
        if key is not name and key != name:
            code = self[name]
        else:
            code = len(self.names)
            self.names.append(name)
        self[key] = code
        return code

    def encode(self, keys: Sequence[object]) -> Codes:
        """Return the number of each key.

        Raises:
            IrregularError: one is neither text nor an integer.
        """
        if not _KEYS.issuperset(map(type, keys)):
            raise IrregularError
        return np.fromiter(map(self.__getitem__, keys), np.int64, len(keys))


class ValueCodes:
    """Value to code."""

    def __init__(self) -> None:
        self._others: dict[tuple[type, Scalar], int] = {}

    def encode(self, values: Sequence[Scalar]) -> Codes:
        """Return the code of each value.

        Raises:
            IrregularError: one is no scalar.
        """
        types = set(map(type, values))
        if types == {int}:
            try:
                codes = np.fromiter(values, np.int64, len(values))
            except OverflowError:
                pass  # integers beyond 64 bits get codes like text does
            else:
                if len(codes) == 0 or (codes.min() > -LIMIT and codes.max() < LIMIT):
                    return codes
        elif not types <= _SCALARS:
            raise IrregularError
        return np.fromiter(map(self._code, values), np.int64, len(values))

    def _code(self, value: Scalar) -> int:
        if type(value) is int and -LIMIT < value < LIMIT:
            return value
        return self._others.setdefault((type(value), value), -LIMIT - len(self._others))

    @property
    def others(self) -> list[Scalar]:
        """The values that are no small integers, in the order of their codes."""
        return [value for _, value in self._others]

    def settle(self, columns: Sequence[Codes]) -> int:
        """Move the codes of other values in ``columns`` to just above the integers; return the first of them."""
        if not self._others:
            return LIMIT
        highest = max((int(c[c > -LIMIT].max(initial=-1)) for c in columns), default=-1)
        first = highest + 1
        for column in columns:
            others = column <= -LIMIT
            if others.any():  # else the column may be too narrow for LIMIT
                column[others] = first + (-LIMIT - column[others])
        return first

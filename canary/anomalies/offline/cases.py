"""Cases of one anomaly, made when they are looked at: a million of them costs nothing until someone reads them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

Case = Mapping[str, Any]
"""The evidence of one case: JSON values only, under the names of ANOMALIES Part I."""

MAX_SKIPPED = 256
"""A case that skipped more than so many messages names only the first of them; ``delta`` is how many there are."""


class Cases(Sequence[Case]):
    """``count`` cases, the n-th of which is ``make(n)``."""

    def __init__(self, count: int, make: Callable[[int], Case]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        """Return how many there are."""
        return self._count

    @overload
    def __getitem__(self, place: int) -> Case: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Case]: ...
    def __getitem__(self, place: int | slice) -> Case | Sequence[Case]:
        """Return the case at ``place``, or those of a slice as a list."""
        if isinstance(place, slice):
            return [self._make(i) for i in range(*place.indices(self._count))]
        return self._make(range(self._count)[place])

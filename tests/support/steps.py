"""What a piece of work costs, told so that no machine can change it: the lines of Python that it runs.

What C does within a line (``in`` of a list, ``sorted``) is not counted; tests/benchmarks compares CPU times.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def steps(work: Callable[[], object]) -> int:
    """Do the work in this thread; return how many lines it ran, each as often as it ran, calls and returns included."""
    count = 0

    def traced(_frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal count
        count += 1
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count

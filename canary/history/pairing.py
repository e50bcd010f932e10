"""Which invocation each completion belongs to: a process has one operation open at a time."""

import numpy as np

from canary.history.columns import INVOKE, Column


class UnpairedError(ValueError):
    """A process does not go invocation, completion, invocation, completion. ``row`` is where, ``reason`` says why."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


def invocations(process: Column, type_: Column, function: Column) -> Column:
    """Return the row of each completion's invocation (-1 for an invocation).

    Raises:
        UnpairedError: an operation has no partner.
    """
    rows = len(process)
    order = np.argsort(_dense(process), kind="stable")
    ranked, function = process[order], function[order]
    invokes = type_[order] == INVOKE
    follows = np.zeros(rows, np.bool_)
    follows[1:] = (ranked[1:] == ranked[:-1]) & invokes[:-1]
    wrong = np.flatnonzero(invokes == follows)
    other = np.flatnonzero(~invokes[1:] & follows[1:] & (function[1:] != function[:-1])) + 1
    for places in (wrong, other):
        if len(places):
            place = places[np.argmin(order[places])]
            name = ranked[place]
            if invokes[place]:
                reason = f"process {name} invokes an operation while another is open"
            elif follows[place]:
                reason = f"process {name} completes another function than it invoked"
            else:
                reason = f"a completion without invocation (process {name})"
            raise UnpairedError(int(order[place]), reason)
    invocation = np.full(rows, -1, np.int64)
    invocation[order[1:]] = np.where(invokes[1:], -1, order[:-1])
    return invocation


def _dense(process: Column) -> Column:
    """Return processes in as few bits as will do, for the sort is by radix then."""
    if len(process) == 0:
        return process
    low, high = int(process.min()), int(process.max())
    if high - low < 1 << 16:
        return (process - low).astype(np.uint16)
    return process

"""Whether a start remembers all that the starts before it knew: the store, which saw it, is asked about the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from canary.facts import MemoryLost

if TYPE_CHECKING:
    from canary.anomalies.online.state import State


def lost(state: State, damage: str | None, shown: bytes | None, installation: str, at_ns: int) -> MemoryLost | None:
    """Return what is forgotten, None if nothing is.

    A ledger that was cut off at the end of a frame, wiped, or put back looks whole; but the last view that the store
    was shown counts the facts that it was made of, and each of them had been durable.

    Args:
        state: what the ledger tells.
        damage: what of it cannot be read (Recovery.damage).
        shown: the last view of this cluster that the store has of this runner (Store.view).
        installation: the store's.
        at_ns: the time.
    """
    view = orjson.loads(shown) if shown is not None else {}
    judged = view.get("ordinal", 0)
    if damage is not None:
        reason = f"the ledger is damaged ({damage})"
    elif state.installation not in {None, installation}:
        reason = "the ledger belongs to another installation than the store"
    elif state.ordinal >= judged:
        return None
    elif state.ordinal:
        reason = (
            f"the ledger tells of {state.ordinal:,} facts, and {judged:,} had been judged: it was cut off or put back"
        )
    else:
        reason = "the ledger is empty, and had not been: it was wiped, or its disk is another one"
    return MemoryLost(at_ns, state.now_ns or view.get("since_ns") or None, reason)

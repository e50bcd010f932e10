"""Histories that no log could ever have produced: anything the format allows, small enough to think about."""

from __future__ import annotations

import random
from typing import Any

Op = dict[str, Any]


def seeded(seed: int) -> random.Random:
    """Return chance that is the same for the same seed."""
    return random.Random(seed)  # tests want to be repeated, not to be secret


def wild_history(random_: random.Random, *, mixed: bool = False) -> list[Op]:  # noqa: C901, PLR0915  # chaos reads best in one piece
    """Return a well-formed history whose content is arbitrary.

    Args:
        random_: Where chance comes from.
        mixed: Values are of several types.
    """
    keys = ["x", "y", "7"][: random_.randint(1, 3)]
    processes = random_.randint(1, 4)
    values: dict[str, list[Any]] = {key: [] for key in keys}
    fresh = iter(range(1000))
    history: list[Op] = []
    open_: dict[int, Op] = {}
    weights = random_.choice([(6, 2, 1, 1), (3, 3, 3, 1), (10, 1, 1, 1)])

    def add(op: Op) -> None:
        op["index"] = len(history) + random_.choice([0, 0, 0])
        op["time"] = len(history) * 10 + random_.randrange(10)
        history.append(op)

    def new_value(key: str) -> Any:
        value: Any = next(fresh)
        if mixed:
            value = random_.choice([value, str(value), f"v{value}", value + 0.5])
        values[key].append(value)
        return value

    def sent_key(key: str) -> Any:
        return int(key) if key.isdigit() and random_.random() < 0.3 else key

    def begin(process: int) -> None:
        kind = random_.choice(["send", "poll", "txn", "txn", "assign", "subscribe"])
        op: Op = {"process": process, "type": "invoke", "f": kind}
        if kind in ("assign", "subscribe"):
            op["value"] = random_.sample(keys, random_.randint(0, len(keys)))
        else:
            op["value"] = []
            for _ in range(random_.randint(1, 4) if kind == "txn" else random_.randint(1, 2)):
                if kind == "send" or (kind == "txn" and random_.random() < 0.5):
                    key = random_.choice(keys)
                    op["value"].append(["send", sent_key(key), new_value(key)])
                else:
                    op["value"].append(["poll"])
        add(op)
        open_[process] = op

    def pairs(key: str) -> list[list[Any]]:
        known = values[key]
        if known and random_.random() < 0.5:  # mostly in order, as it should be
            start = random_.randrange(len(known))
            run = known[start : start + random_.randint(0, 4)]
            return [[known.index(v) * 2, v] for v in run]
        found: list[list[Any]] = []
        for _ in range(random_.randint(0, 3)):
            value = random_.choice(known) if known and random_.random() < 0.9 else 5000 + random_.randrange(3)
            found.append([random_.choice([None, *range(8)]), value])
        return found

    def complete(process: int) -> None:
        op = dict(open_.pop(process))
        op["type"] = random_.choices(["ok", "info", "fail"], weights[:3])[0]
        if op["f"] in ("send", "poll", "txn"):
            stop = random_.randint(0, len(op["value"])) if op["type"] != "ok" else len(op["value"])
            done: list[Any] = []
            for place, micro in enumerate(op["value"]):
                if place >= stop:
                    done.append(micro)
                elif micro[0] == "send":
                    place_of = values[str(micro[1])].index(micro[2]) * 2
                    offset = random_.choice([place_of] * 5 + [None, random_.randrange(8)])
                    done.append(["send", micro[1], random_.choice([[offset, micro[2]]] * 8 + [micro[2]])])
                else:
                    chosen = random_.sample(keys, random_.randint(0, len(keys)))
                    done.append(random_.choice([["poll", {key: pairs(key) for key in chosen}]] * 8 + [["poll"]]))
            op["value"] = done
            if random_.random() < 0.1:
                op["rebalance_log"] = [{"keys": random_.sample(keys, random_.randint(0, len(keys)))}]
        add(op)

    for _ in range(random_.randint(2, 40)):
        process = random_.randrange(processes)
        if random_.random() < 0.05:
            add({"process": "nemesis", "type": "info", "f": "kill", "value": None})
        elif process in open_:
            complete(process)
        else:
            begin(process)
    if random_.random() < 0.9:
        for process in list(open_):
            complete(process)
    return history

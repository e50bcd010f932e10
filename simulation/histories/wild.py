"""Histories that no log could ever have produced: anything the format allows, small enough to think about."""

from __future__ import annotations

import random
from typing import Any

Op = dict[str, Any]


def seeded(seed: int) -> random.Random:
    """Return chance that is the same for the same seed."""
    return random.Random(seed)  # tests want to be repeated, not to be secret


def wild_history(random_: random.Random, *, mixed: bool = False) -> list[Op]:
    """Return a well-formed history whose content is arbitrary.

    Args:
        random_: Where chance comes from.
        mixed: Values are of several types.
    """
    return _Wild(random_, mixed=mixed).history()


class _Wild:
    """A history that is being drawn."""

    def __init__(self, random_: random.Random, *, mixed: bool) -> None:
        self._random = random_
        self._mixed = mixed
        self._keys = ["x", "y", "7"][: random_.randint(1, 3)]
        self._processes = random_.randint(1, 4)
        self._values: dict[str, list[Any]] = {key: [] for key in self._keys}
        self._fresh = iter(range(1000))
        self._history: list[Op] = []
        self._open: dict[int, Op] = {}
        self._weights = random_.choice([(6, 2, 1, 1), (3, 3, 3, 1), (10, 1, 1, 1)])

    def history(self) -> list[Op]:
        """Draw the whole history."""
        random_ = self._random
        for _ in range(random_.randint(2, 40)):
            process = random_.randrange(self._processes)
            if random_.random() < 0.05:
                self._add({"process": "nemesis", "type": "info", "f": "kill", "value": None})
            elif process in self._open:
                self._complete(process)
            else:
                self._begin(process)
        if random_.random() < 0.9:
            for process in list(self._open):
                self._complete(process)
        return self._history

    def _add(self, op: Op) -> None:
        history = self._history
        op["index"] = len(history) + self._random.choice([0, 0, 0])
        op["time"] = len(history) * 10 + self._random.randrange(10)
        history.append(op)

    def _new_value(self, key: str) -> Any:
        value: Any = next(self._fresh)
        if self._mixed:
            value = self._random.choice([value, str(value), f"v{value}", value + 0.5])
        self._values[key].append(value)
        return value

    def _sent_key(self, key: str) -> Any:
        return int(key) if key.isdigit() and self._random.random() < 0.3 else key

    def _begin(self, process: int) -> None:
        random_ = self._random
        kind = random_.choice(["send", "poll", "txn", "txn", "assign", "subscribe"])
        op: Op = {"process": process, "type": "invoke", "f": kind}
        if kind in ("assign", "subscribe"):
            op["value"] = random_.sample(self._keys, random_.randint(0, len(self._keys)))
        else:
            op["value"] = []
            for _ in range(random_.randint(1, 4) if kind == "txn" else random_.randint(1, 2)):
                if kind == "send" or (kind == "txn" and random_.random() < 0.5):
                    key = random_.choice(self._keys)
                    op["value"].append(["send", self._sent_key(key), self._new_value(key)])
                else:
                    op["value"].append(["poll"])
        self._add(op)
        self._open[process] = op

    def _pairs(self, key: str) -> list[list[Any]]:
        """Return what a poll gives of a key, as (offset, value)."""
        random_, known = self._random, self._values[key]
        if known and random_.random() < 0.5:  # mostly in order, as it should be
            start = random_.randrange(len(known))
            run = known[start : start + random_.randint(0, 4)]
            return [[known.index(v) * 2, v] for v in run]
        found: list[list[Any]] = []
        for _ in range(random_.randint(0, 3)):
            value = random_.choice(known) if known and random_.random() < 0.9 else 5000 + random_.randrange(3)
            found.append([random_.choice([None, *range(8)]), value])
        return found

    def _complete(self, process: int) -> None:
        random_, keys = self._random, self._keys
        op = dict(self._open.pop(process))
        op["type"] = random_.choices(["ok", "info", "fail"], self._weights[:3])[0]
        if op["f"] in ("send", "poll", "txn"):
            stop = random_.randint(0, len(op["value"])) if op["type"] != "ok" else len(op["value"])
            op["value"] = [self._done(micro) if n < stop else micro for n, micro in enumerate(op["value"])]
            if random_.random() < 0.1:
                op["rebalance_log"] = [{"keys": random_.sample(keys, random_.randint(0, len(keys)))}]
        self._add(op)

    def _done(self, micro: list[Any]) -> list[Any]:
        """Return what came of a part of an operation."""
        random_ = self._random
        if micro[0] == "send":
            place = self._values[str(micro[1])].index(micro[2]) * 2
            offset = random_.choice([place] * 5 + [None, random_.randrange(8)])
            return ["send", micro[1], random_.choice([[offset, micro[2]]] * 8 + [micro[2]])]
        chosen = random_.sample(self._keys, random_.randint(0, len(self._keys)))
        polled: list[Any] = ["poll", {key: self._pairs(key) for key in chosen}]
        return random_.choice([polled] * 8 + [["poll"]])

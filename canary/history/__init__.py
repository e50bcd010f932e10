"""Recorded histories: what processes asked of a log and what they were told, in Jepsen's shape.

A history is a sequence of *operations* in real-time order. Each is invoked by a process and then completes as ``ok``
(it happened), ``fail`` (it did not) or ``info`` (nobody knows)::

    {"index": 0, "time": 1200, "process": 0, "type": "invoke", "f": "send", "value": [["send", "x", 1]]}
    {"index": 1, "time": 3400, "process": 0, "type": "ok", "f": "send", "value": [["send", "x", [0, 1]]]}
    {"index": 2, "time": 3500, "process": 1, "type": "invoke", "f": "poll", "value": [["poll"]]}
    {"index": 3, "time": 4100, "process": 1, "type": "ok", "f": "poll", "value": [["poll", {"x": [[0, 1]]}]]}

``send``, ``poll`` and ``txn`` carry micro-operations: a send of a value to a key, completed with its offset (null:
not known), and a poll, completed with what each key returned as [offset, value] pairs. ``assign`` and ``subscribe``
carry the keys that the consumer reads from then on. ``crash`` ends a process. Operations whose process is no integer
(Jepsen's nemesis) are counted and otherwise ignored. Keys are strings (an integer key is its decimal text); values
are strings, integers, floats or booleans, and 1 is not "1".

Two shapes in memory:

* ``Operation``: one operation as a value, for people and for writers.
* ``History``: all of it as NumPy columns, exploded once into sends, poll segments and reads; what the checker works on.
  A million operations take some hundred megabytes and a few seconds.

Two formats on disk: JSON Lines (``read_jsonl``, ``write_jsonl``) and EDN as Jepsen writes it (``read_edn``). ``load``
finds out which one it has. Whatever is wrong with a file is one HistoryError that says where and what.
"""

from typing import TYPE_CHECKING

from canary.footprint import on_first_use
from canary.history.errors import HistoryError
from canary.history.operation import Operation
from canary.history.writing import to_json, write_jsonl

if TYPE_CHECKING:
    from canary.history.columns import History
    from canary.history.reading import load, load_operations, read_edn, read_jsonl

# These load NumPy, which the API does without.
_READING = ("load", "load_operations", "read_edn", "read_jsonl")
__getattr__ = on_first_use(__name__, {"History": "columns", **dict.fromkeys(_READING, "reading")})

__all__ = [
    "History",
    "HistoryError",
    "Operation",
    "load",
    "load_operations",
    "read_edn",
    "read_jsonl",
    "to_json",
    "write_jsonl",
]

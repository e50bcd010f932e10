"""Recorded histories: what processes asked of a log and what it answered, in Jepsen's shape.

A history is a sequence of *operations* in real-time order. Each is invoked by a process and then completes as ``ok``
(it happened), ``fail`` (it did not) or ``info`` (unknown)::

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

* ``operation.Operation``: one operation as a value, for people and for writers.
* ``columns.History``: all of it as NumPy columns, exploded once into sends, poll segments and reads; what the checker
  works on. A million operations take some hundred megabytes and a few seconds.

Two formats on disk: JSON Lines and EDN as Jepsen writes it; ``reading.load`` recognises either. An error in a file is
one HistoryError that says where and what.
"""

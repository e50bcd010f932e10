"""Tell the kernel the names of Python's threads, as far as it takes them: on the PYTHONPATH of what is measured."""

import ctypes
import threading
from typing import Any

_PR_SET_NAME = 15
_thread: Any = threading.Thread
_prctl, _set_native_id = ctypes.CDLL(None).prctl, _thread._set_native_id


def _named(self: threading.Thread) -> None:
    _set_native_id(self)
    _prctl(_PR_SET_NAME, self.name.encode()[:15], 0, 0, 0)


_thread._set_native_id = _named

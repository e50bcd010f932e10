"""What keeps a process small and quick to start: some run for years, and tests start dozens."""

import ctypes
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2
_OF_THEIR_OWN: Final = 256 * 1024


def keep_small() -> None:
    """Let this process give memory back, from here on; call it before threads are started and Arrow is loaded.

    The C library would keep a heap for every few threads (librdkafka alone has dozens), and Arrow a pool beside it
    whose pages it does not return. Children are not concerned, unless they inherit the environment: Spark's should not.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it, musl has not
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)
        mallopt(_M_MMAP_THRESHOLD, _OF_THEIR_OWN)


def keep_quiet() -> None:
    """Do not look for garbage in what is loaded by now: it stays, and looking costs more than all that is found.

    Young objects are looked through when there are 10,000 of them, not 700: most are gone by then.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@dataclass(frozen=True, slots=True)
class _Hiding:
    """A finder of modules (sys.meta_path)."""

    packages: Sequence[str]

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        """Refuse what is hidden; leave the rest to the finders behind."""
        if fullname in self.packages:
            raise ModuleNotFoundError(f"{fullname} is hidden", name=fullname)


@contextmanager
def hidden(*packages: str) -> Iterator[None]:
    """Let what is imported in the body believe that these packages are not installed; those already loaded stay.

    Some libraries load a large package only because it is there, without needing it for what we ask of them.
    """
    hiding = _Hiding(packages)
    sys.meta_path.insert(0, hiding)
    try:
        yield
    finally:
        sys.meta_path.remove(hiding)

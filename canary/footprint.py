"""What keeps a process small and quick to start: some run for years, and tests start dozens."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


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


def on_first_use(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__`` (PEP 562): it imports the module that has a name when the name is first used.

    Args:
        package: its name.
        modules: the package's module that has each of the names.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)

    return get


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

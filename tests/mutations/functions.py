"""Functions that live in this process get the code of an edited file: what imported them is not imported again."""

from __future__ import annotations

import gc
from collections import defaultdict
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

from simulation.search.edits import edited

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from simulation.search.edits import Edit

Pair = tuple[FunctionType, CodeType]


def live() -> Mapping[str, Sequence[FunctionType]]:
    """Return the functions of this process by the path of their file."""
    found = defaultdict(list)
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType):
            found[thing.__code__.co_filename].append(thing)
    return found


def replaced(tree: Path, edit: Edit, functions: Mapping[str, Sequence[FunctionType]]) -> list[Pair] | None:
    """Return functions with the codes that they have when the edit is made, none if the file was not imported.

    None: the edit changes what ran when the module was imported, so it has to be imported again.
    """
    path = tree / edit.file
    if str(path) not in functions:
        return []
    text = path.read_text()
    old, new = (compile(code, str(path), "exec", dont_inherit=True) for code in (text, edited(text, [edit])))
    found = []
    for before, after in _differing(old, new):
        if not before.co_flags & _IS_FUNCTION:
            return None
        owners = [function for function in functions[str(path)] if function.__code__ == before]
        if any(function.__code__.co_freevars != after.co_freevars for function in owners):
            return None
        found += [(function, after) for function in owners]
    return found or None


_IS_FUNCTION = 2  # inspect.CO_NEWLOCALS: neither a module nor the body of a class


def _differing(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the codes that are not the same, but for what stands inside them."""
    inner, fresh = ([part for part in code.co_consts if isinstance(part, CodeType)] for code in (old, new))
    if _own(old) != _own(new) or len(inner) != len(fresh):
        yield old, new
        return
    same = True
    for before, after in zip(inner, fresh, strict=True):
        for pair in _differing(before, after):
            same = False
            yield pair
    if not same and old.co_flags & _IS_FUNCTION:
        yield old, new


def _own(code: CodeType) -> tuple[object, ...]:
    consts = [None if isinstance(part, CodeType) else part for part in code.co_consts]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, repr(consts), names, code.co_exceptiontable, code.co_flags, code.co_argcount

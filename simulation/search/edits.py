r"""Edits of Python files, made for a while and addressed by the syntax tree.

An edit holds an expression, statements or keyword arguments as Python source, and the function or class in which it
stands. Comments, docstrings and line breaks have no part in it: rewording and reformatting leave an edit as it is. The
body ``...`` of a compound statement stands for whatever its body is:

>>> module = ast.parse("def first(x):\\n    if x:  # not empty\\n        return x[0]\\n    return None")
>>> Edit("file.py", "first", "if x: ...", "if len(x) > 1: ...").site(scopes(module)).put()
>>> print(ast.unparse(module))
def first(x):
    if len(x) > 1:
        return x[0]
    return None
"""

from __future__ import annotations

import ast
import textwrap
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Edit(NamedTuple):
    """``original`` is code that stands exactly once in ``scope``; ``replacement`` is put there, "" removes statements.

    ``scope`` is the name of the innermost function or class around the code: ``Claims.add``, of a nested function
    ``outer.inner``, at the level of the module "". Decorators and parameters belong to their function.
    """

    file: str
    scope: str
    original: str
    replacement: str

    def site(self, named: Mapping[str, Sequence[ast.AST]]) -> Site:
        """Return where the original stands in the module whose scopes these are.

        Raises:
            ValueError: it does not stand in its scope exactly once, is no Python, or is the same as its replacement.
        """
        sites = self._sites(named.get(self.scope, ()))
        if len(sites) == 1 and not sites[0].stays:
            return sites[0]
        if len(sites) == 1:
            remedy = "with the replacement it is the same, write another one"
        elif sites:
            remedy = "name more of the code around it"
        elif elsewhere := [name or "the module" for name, nodes in named.items() if self._sites(nodes)]:
            remedy = f"name the scope in which it stands: {', '.join(elsewhere)}"
        elif self.scope in named:
            remedy = "write the code that stands there now"
        else:
            remedy = "there is no such function or class, name the one in which the code stands"
        where, times = self.scope or "the module", "once" if len(sites) == 1 else f"{len(sites)} times"
        raise ValueError(f"{self.file}: in {where} {self.original!r} stands {times}: {remedy}")

    def _sites(self, nodes: Sequence[ast.AST]) -> list[Site]:
        readings = list(_readings(self.original, self.replacement))
        if not readings:
            raise ValueError(f"{self.file}: {self.original!r} or {self.replacement!r} is no Python: mend it")
        return [site for node in nodes for old, new in readings for site in _sites(node, old, new)]


class Site(NamedTuple):
    """Nodes that follow one another in a field of ``parent``, and those which replace them."""

    parent: ast.AST
    field: str
    nodes: Sequence[ast.AST]
    replacement: Sequence[ast.AST]

    @property
    def stays(self) -> bool:
        """Whether what replaces the nodes is the same."""
        return _alike(self.replacement, self.nodes)

    def put(self) -> None:
        """Replace the nodes; what is ``...`` in the replacement stays what it is.

        Raises:
            ValueError: ``...`` stands for nothing there.
        """
        written = [part for node in self.replacement for part in ast.walk(node)]
        for part in written:
            ast.copy_location(part, self.nodes[0])
        _fill(self.replacement, self.nodes)
        if any(_is_open(part, "body") for part in written):
            raise ValueError(f"no body stands where {ast.unparse(self.nodes[0])!r} is replaced by one that is '...'")
        here = getattr(self.parent, self.field)
        if isinstance(here, list):
            first = next(i for i, node in enumerate(here) if node is self.nodes[0])
            here[first : first + len(self.nodes)] = self.replacement
        else:
            setattr(self.parent, self.field, *self.replacement)


def scopes(module: ast.Module) -> Mapping[str, Sequence[ast.AST]]:
    """Return the functions and classes of a module by name, each in its class or function; "" is the module."""
    named: dict[str, list[ast.AST]] = {"": [module]}
    waiting: list[tuple[str, ast.AST]] = [("", module)]
    for name, node in waiting:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _SCOPES):
                inner = f"{name}.{child.name}" if name else child.name
                named.setdefault(inner, []).append(child)
                waiting.append((inner, child))
            elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                waiting.append((name, child))
    return named


def edited(text: str, edits: Sequence[Edit]) -> ast.Module:
    """Return the module that the text of a file is when edits are made in it.

    Raises:
        ValueError: an original does not stand in its scope exactly once.
    """
    module = ast.parse(text)
    named = scopes(module)
    for site in [edit.site(named) for edit in edits]:
        site.put()
    return module


def changed(tree: Path, edits: Sequence[Edit]) -> dict[str, str]:
    """Return file to text, of the files of ``tree`` that change when the edits are made there.

    Raises:
        ValueError: the edits do not fit the tree.
    """
    files = dict.fromkeys(edit.file for edit in edits)
    return {
        file: ast.unparse(edited((tree / file).read_text(), [edit for edit in edits if edit.file == file])) + "\n"
        for file in files
    }


@contextmanager
def made(tree: Path, edits: Sequence[Edit]) -> Iterator[None]:
    """Make edits in ``tree``, and put it back at the end.

    Raises:
        ValueError: the edits do not fit the tree.
    """
    texts = changed(tree, edits)
    before = {file: (tree / file).read_text() for file in texts}
    try:
        for file, text in texts.items():
            (tree / file).write_text(text)
        yield
    finally:
        for file, text in before.items():
            (tree / file).write_text(text)


def _readings(old: str, new: str) -> Iterator[tuple[Sequence[ast.AST], Sequence[ast.AST]]]:
    """Yield what the texts are as an expression each, else as statements and as arguments of a call (``a=b``)."""
    for reading in (_expression, _statements, _keywords):
        with suppress(SyntaxError):
            yield reading(old), reading(new)
            if reading is _expression:
                return


def _expression(source: str) -> Sequence[ast.AST]:
    if not source.strip():
        raise SyntaxError
    return [ast.parse(f"({source.strip()}\n)", mode="eval").body]


def _statements(source: str) -> Sequence[ast.AST]:
    return ast.parse(textwrap.dedent(source)).body or [ast.Pass()]


def _keywords(source: str) -> Sequence[ast.AST]:
    match ast.parse(f"_({source})", mode="eval").body:
        case ast.Call(args=[], keywords=[*keywords]):
            return keywords
    raise SyntaxError


def _sites(scope: ast.AST, old: Sequence[ast.AST], new: Sequence[ast.AST]) -> Iterator[Site]:
    """Yield where the old nodes stand in the scope, without the scopes inside it."""
    waiting = [scope]
    for parent in waiting:
        for field, value in ast.iter_fields(parent):
            nodes = [node for node in (value if isinstance(value, list) else [value]) if isinstance(node, ast.AST)]
            waiting += (node for node in nodes if not isinstance(node, _SCOPES))
            shown = [i for i, node in enumerate(nodes) if not _is_docstring(node)]
            for first in range(len(shown) - len(old) + 1):
                span = shown[first : first + len(old)]
                if span and all(_alike(code, nodes[i]) for code, i in zip(old, span, strict=True)):
                    yield Site(parent, field, nodes[span[0] : span[-1] + 1], new)


def _alike(code: object, node: object) -> bool:
    """Return whether both are the same but for places, docstrings, and what ``...`` stands for."""
    if type(code) is not type(node):
        return False
    if isinstance(code, list) and isinstance(node, list):
        parts, nodes = ([item for item in items if not _is_docstring(item)] for items in (code, node))
        return len(parts) == len(nodes) and all(map(_alike, parts, nodes))
    if isinstance(code, ast.AST):
        return all(
            _is_open(code, field) or _alike(getattr(code, field, None), getattr(node, field, None))
            for field in code._fields
        )
    return code == node


def _is_docstring(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_open(code: ast.AST, field: str) -> bool:
    """Return whether ``...`` stands for the field: for a body, and for what follows where only the body is written."""
    match getattr(code, "body", None):
        case [ast.Expr(value=ast.Constant(value=value))] if value is ...:
            return field == "body" or (field in {"orelse", "finalbody"} and not getattr(code, field))
    return False


def _fill(new: Sequence[object], old: Sequence[object]) -> None:
    """Put what stood there where new statements have ``...``."""
    for code, node in zip(new, old, strict=False):
        if not isinstance(code, ast.AST):
            continue
        open_ = {field for field in code._fields if _is_open(code, field)}
        for field in code._fields:
            here, before = getattr(code, field), getattr(node, field, None)
            if isinstance(before, list) and field in open_:
                setattr(code, field, before)
            elif isinstance(before, list) and isinstance(here, list):
                _fill(here, before)

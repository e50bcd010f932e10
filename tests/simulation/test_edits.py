"""An edit finds its code by the syntax tree: what is only written otherwise is the same code."""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from simulation.search.edits import Edit, edited, made

if TYPE_CHECKING:
    from pathlib import Path

CODE = '''
class Claims:
    """Who claimed what."""

    def add(self, key, value=None):
        """Add a claim."""
        if key in self.known and not value:
            raise KeyError(key)
        else:
            self.known[key] = value
        self.count(added=1)

    def remove(self, key):
        del self.known[key]
        self.count(added=-1)
        self.count(added=-1)
'''
DELETION = "del self.known[key]\n        self.count(added=-1)"
LIMIT = Edit("claims.py", "Claims.add", "key in self.known and not value", "key in self.known")


def after(edit: Edit, code: str = CODE) -> str:
    """Return the code with the edit made, as Python writes it."""
    return ast.unparse(edited(code, [edit]))


def written(code: str) -> str:
    """Return the code as Python writes it."""
    return ast.unparse(ast.parse(code))


@pytest.mark.parametrize(
    ("words", "others"),
    [
        ("Add a claim.", "Remember who claims a key.\n\n        None is no claim."),
        ("        if key", "        # a claim that says nothing\n        if key"),
        (LIMIT.original, "(\n            key in self.known  # since the start\n            and (not value)\n        )"),
        ("def add(self, key, value=None)", "def add(\n        self,\n        key,\n        value=None,\n    )"),
        ("    def remove", "    def reset(self):\n        return key in self.known and not value\n\n    def remove"),
    ],
    ids=["docstring", "comment", "line-breaks", "signature", "another-function"],
)
def test_what_is_only_written_otherwise_does_not_break_an_edit(words: str, others: str) -> None:
    rewritten = CODE.replace(words, others)
    limit = "if key in self.known and (not value):"
    assert rewritten != CODE
    assert after(LIMIT, rewritten) == written(rewritten).replace(limit, "if key in self.known:")


def test_code_that_moved_to_another_function_is_refused_with_the_name_of_that_function() -> None:
    moved = CODE.replace("def add(self, key, value=None)", "def put(self, key, value=None)").replace("remove", "add")
    remedy = "in Claims.add 'key .* value' stands 0 times: name the scope in which it stands: Claims.put"
    with pytest.raises(ValueError, match=f"claims.py: {remedy}"):
        edited(moved, [LIMIT])


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            LIMIT._replace(scope="Claims.remove", original="self.count(added=-1)"),
            "stands 2 times: name more of the code",
        ),
        (LIMIT._replace(original="key in self.seen"), "stands 0 times: write the code that stands there now"),
        (LIMIT._replace(scope="Claims.put", original="key in self.seen"), "there is no such function or class"),
        (LIMIT._replace(replacement="(key in self.known) and not value"), "stands once: .* write another one"),
        (LIMIT._replace(original="if key:"), "'if key:' or 'key in self.known' is no Python: mend it"),
    ],
    ids=["twice", "gone", "no-scope", "no-change", "no-python"],
)
def test_an_edit_that_does_not_fit_is_refused_with_the_remedy(edit: Edit, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        edited(CODE, [edit])


@pytest.mark.parametrize(
    ("scope", "original", "replacement", "broken"),
    [
        ("Claims.remove", "del self.known[key]", "pass", CODE.replace("del self.known[key]", "pass")),
        ("Claims.remove", "del self.known[key]\nself.count(added=-1)", "pass", CODE.replace(DELETION, "pass")),
        ("Claims.add", "added=1", "added=2", CODE.replace("added=1", "added=2")),
        ("Claims.add", f"if {LIMIT.original}: ...", "if key: ...", CODE.replace(LIMIT.original, "key")),
        ("Claims", "def remove(self, key): ...", "def drop(self, key): ...", CODE.replace("remove", "drop")),
    ],
    ids=["statement", "statements", "keyword", "header", "function"],
)
def test_an_edit_replaces_its_code_and_nothing_else(scope: str, original: str, replacement: str, broken: str) -> None:
    assert after(Edit("claims.py", scope, original, replacement)) == written(broken)


def test_a_docstring_within_the_code_does_not_matter() -> None:
    edit = Edit("limits.py", "", "FIRST = 1\nLAST = 2", "FIRST = LAST = 0")
    assert after(edit, "FIRST = 1\n'''The first.'''\nLAST = 2") == "FIRST = LAST = 0"
    edit = Edit("limits.py", "Limit", "def width(self):\n    return 2", "width = 3")
    assert after(edit, "class Limit:\n    def width(self):\n        'In m.'\n        return 2").endswith(
        "    width = 3"
    )


def test_a_body_that_stays_stands_where_the_one_before_stood() -> None:
    header = f"if {LIMIT.original}: ..."
    with pytest.raises(ValueError, match="no body stands where"):
        after(Edit("claims.py", "Claims.add", header, "value = key\nif value: ..."))


def test_edits_are_taken_back_whatever_happens(tmp_path: Path) -> None:
    file = tmp_path / "file.py"
    file.write_text("a = 1  # one\nb = a")
    edits = Edit("file.py", "", "1", "2"), Edit("file.py", "", "b = a", "b = 3")
    with suppress(KeyboardInterrupt), made(tmp_path, edits):
        assert file.read_text() == "a = 2\nb = 3\n"
        raise KeyboardInterrupt
    assert file.read_text() == "a = 1  # one\nb = a"

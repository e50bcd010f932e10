"""Edits of a tree that are made for a while."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class Edit(NamedTuple):
    """``original`` stands exactly once in ``file``."""

    file: str
    original: str
    replacement: str


def edited(text: str, edits: Sequence[Edit]) -> str:
    """Return the text of a file with edits made.

    Raises:
        ValueError: an original does not stand there exactly once.
    """
    for edit in edits:
        if text.count(edit.original) != 1:
            raise ValueError(f"{edit.file}: {edit.original!r} stands there {text.count(edit.original)} times")
    for edit in edits:
        text = text.replace(edit.original, edit.replacement)
    return text


def changed(tree: Path, edits: Sequence[Edit]) -> dict[str, str]:
    """Return file to text, of the files of ``tree`` that change when the edits are made there.

    Raises:
        ValueError: the edits do not fit the tree.
    """
    files = dict.fromkeys(edit.file for edit in edits)
    return {file: edited((tree / file).read_text(), [edit for edit in edits if edit.file == file]) for file in files}


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

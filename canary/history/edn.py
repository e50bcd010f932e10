"""Jepsen's history.edn: a small reader for the part of EDN that histories are written in, and all of its syntax.

Operations come as maps, or as records printed as ``#jepsen.history.Op{...}``, one behind the other or in one vector
or list. Keywords, symbols and characters become text (``:x`` is "x"), maps with their keys as text or numbers become
dicts, vectors, lists and sets become lists, ``#inst`` and ``#uuid`` their text. ``rebalance-log`` is read as
``rebalance_log``. Any other tag is an error.

Nearly all lines hold one operation made of numbers, keywords and brackets. Those are rewritten as JSON, which a
parser written in C takes from there (some twenty times faster); all others go through the reader below, token by
token. It keeps its own stack: nothing nested, however deeply, can overflow Python's.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from canary.history.errors import HistoryError

MAX_DEPTH = 256

_TOKEN: Final = re.compile(
    r"""[\s,]+|;[^\n]*
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<open>\#?\{|[\[(])
    |(?P<close>[\])}])
    |(?P<special>\#\#[A-Za-z-]+)
    |(?P<discard>\#_)
    |(?P<tag>\#[A-Za-z][^\s,()\[\]{}";]*)
    |(?P<character>\\(?:[A-Za-z][A-Za-z0-9]*|.))
    |(?P<atom>[^\s,()\[\]{}";\\\#][^\s,()\[\]{}";\\]*)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_INTEGER: Final = re.compile(r"[+-]?\d+N?")
_FLOAT: Final = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_RATIO: Final = re.compile(r"([+-]?\d+)/(\d+)")
_SPECIAL: Final = {"##Inf": float("inf"), "##-Inf": float("-inf"), "##NaN": float("nan")}
_WORDS: Final[dict[str, Any]] = {"nil": None, "true": True, "false": False}
_CHARACTERS: Final = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t"}
_MAX_DIGITS = 400
_RECORD: Final = "jepsen.history.Op"
_CLOSES: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}

_MAP: Final = "\0map"
_SIMPLE: Final = re.compile(r"\s*(?:\#jepsen\.history\.Op\s*)?(\{[^\"\\;\#\0^]*\})\s*")
_KEYWORD: Final = re.compile(r":([^\s,()\[\]{}:]+)")
_SPLIT: Final = str.maketrans(
    {"[": " [ ", "]": " ] ", "(": " [ ", ")": " ] ", "{": ' ["\\u0000map" ', "}": " ] ", ",": " "}
)


def operations(chunks: Iterator[bytes], source: str) -> Iterator[tuple[Any, int]]:
    """Yield each operation, as a dict where it is one, with the line on which it begins.

    Raises:
        HistoryError: what follows is not EDN, or has an unknown tag.
    """
    reader = _Reader(source)
    for number, line in _lines(chunks, source):
        if reader.between_operations:
            quick = _quickly(line)
            if quick is not None:
                yield quick, number
                continue
        yield from reader.read(line, number)
    reader.finish()


def _lines(chunks: Iterator[bytes], source: str) -> Iterator[tuple[int, str]]:
    """Yield (number, line with its end)."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    number = 1
    rest: list[str] = []
    for chunk in chunks:
        try:
            text = decoder.decode(chunk)
        except UnicodeDecodeError as error:
            raise HistoryError(source, number + chunk.count(b"\n", 0, error.start), "not UTF-8") from None
        *complete, last = text.split("\n")
        for line in complete:
            yield number, "".join((*rest, line, "\n"))
            rest = []
            number += 1
        rest.append(last)
    if any(rest):
        yield number, "".join(rest)


def _quickly(line: str) -> dict[str, Any] | None:
    """Return the operation on a line that holds one and nothing unusual, else None."""
    match = _SIMPLE.fullmatch(line)
    if match is None:
        return None
    text = _KEYWORD.sub(r' "\1" ', match[1]).translate(_SPLIT)
    text = ",".join(text.split()).replace(",nil", ",null").replace("[,", "[").replace(",]", "]")
    try:
        form = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    operation = _as_map(form)
    if operation is None:
        return None
    value = operation.get("value")
    maps = 1
    for micro in value if value.__class__ is list else ():
        if micro.__class__ is list and len(micro) == 2:
            polled = _as_map(micro[1])
            if polled is not None:
                micro[1] = polled
                maps += 1
    return _renamed(operation) if maps == match[1].count("{") else None


def _as_map(form: Any) -> dict[Any, Any] | None:
    """Return the dict that a rewritten map stands for; None if it is no such."""
    if form.__class__ is not list or not form or form[0] != _MAP or len(form) % 2 == 0:
        return None
    try:
        return dict(zip(form[1::2], form[2::2], strict=True))
    except TypeError:  # a key that is a vector or a map
        return None


def _renamed(operation: dict[str, Any]) -> dict[str, Any]:
    for name, python_name in (("rebalance-log", "rebalance_log"), ("seek-to-beginning?", "seek_to_beginning")):
        if name in operation:
            operation[python_name] = operation.pop(name)
    return operation


@dataclass(slots=True)
class _Frame:
    """A form that is open: what opened it, on which line, and what it holds so far."""

    opener: str
    line: int
    items: list[Any] = field(default_factory=list)


class _Reader:
    """Reads line by line; keeps what is open between lines."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._stack: list[_Frame] = []
        self._text = ""
        self._text_line = 1
        self._in_vector = False

    @property
    def between_operations(self) -> bool:
        return not self._stack and not self._text

    def read(self, line: str, number: int) -> Iterator[tuple[Any, int]]:
        """Yield the operations that end on ``line``."""
        if self._text:
            line = self._text + line
        else:
            self._text_line = number
        at, number, self._text = 0, self._text_line, ""
        while at < len(line):
            match = _TOKEN.match(line, at)
            if match is None:
                if line[at] == '"':  # a string that goes on on the next line
                    self._text, self._text_line = line[at:], number
                    return
                raise self._error(number, f"not EDN: {line[at : at + 20].strip()!r}")
            kind = match.lastgroup
            if kind is not None:
                yield from self._take(kind, match[kind], number)
            number += match[0].count("\n")
            at = match.end()

    def finish(self) -> None:
        """Raise if something is still open."""
        if self._text:
            raise self._error(self._text_line, "the string that begins here has no end")
        if self._stack:
            raise self._error(self._stack[-1].line, f"what opens here with {self._stack[-1].opener} has no end")
        if self._in_vector:
            raise self._error(1, "the vector of operations has no end")

    def _error(self, line: int, reason: str) -> HistoryError:
        return HistoryError(self._source, line, reason)

    def _take(self, kind: str, text: str, line: int) -> Iterator[tuple[Any, int]]:
        match kind:
            case "open" if text in "[(" and not self._stack and not self._in_vector:
                self._in_vector = True
            case "open" | "tag" | "discard":
                if len(self._stack) >= MAX_DEPTH:
                    raise self._error(line, f"nested more than {MAX_DEPTH} deep")
                if kind == "tag" and text[1:] not in (_RECORD, "inst", "uuid"):
                    raise self._error(line, f"unknown tag {text[:60]}")
                self._stack.append(_Frame(text, line))
            case "close":
                if not self._stack and self._in_vector and text in "])":
                    self._in_vector = False
                    return
                yield from self._close(text, line)
            case _:
                yield from self._put(self._atom(kind, text, line), line)

    def _close(self, text: str, line: int) -> Iterator[tuple[Any, int]]:
        if not self._stack or _CLOSES.get(self._stack[-1].opener) != text:
            raise self._error(line, f"{text} closes nothing")
        frame = self._stack.pop()
        form: Any = frame.items
        if frame.opener == "{":
            if len(form) % 2:
                raise self._error(frame.line, "a map with a key without value")
            try:
                form = dict(zip(form[0::2], form[1::2], strict=True))
            except TypeError:
                raise self._error(frame.line, "a map whose keys are not text or numbers") from None
        yield from self._put(form, frame.line)

    def _put(self, form: Any, line: int) -> Iterator[tuple[Any, int]]:
        """Give a finished form to whatever is open around it."""
        while self._stack and self._stack[-1].opener[0] == "#" and self._stack[-1].opener != "#{":
            frame = self._stack.pop()
            line = frame.line
            if frame.opener == "#_":
                return
            if frame.opener[1:] == _RECORD:
                if not isinstance(form, dict):
                    raise self._error(line, f"{frame.opener} is not followed by a map")
            elif not isinstance(form, str):
                raise self._error(line, f"{frame.opener} is not followed by a string")
        if self._stack:
            self._stack[-1].items.append(form)
        else:
            yield (_renamed(form) if isinstance(form, dict) else form), line

    def _atom(self, kind: str, text: str, line: int) -> Any:
        match kind:
            case "string":
                return self._string(text, line)
            case "character":
                return _CHARACTERS.get(text[1:], text[1:])
            case "atom" if text[0] == ":":
                return text[1:]
            case "atom" if not text.lstrip("+-")[:1].isdigit():
                return _WORDS.get(text, text)  # nil, true, false, or a symbol
            case "special" if text in _SPECIAL:
                return _SPECIAL[text]
            case _:
                return self._number(text, line)

    def _number(self, text: str, line: int) -> int | float:
        if len(text) < _MAX_DIGITS:
            if _INTEGER.fullmatch(text):
                return int(text.rstrip("N"))
            if _FLOAT.fullmatch(text):
                return float(text.rstrip("M"))
            if (ratio := _RATIO.fullmatch(text)) and int(ratio[2]):
                return int(ratio[1]) / int(ratio[2])
        raise self._error(line, f"not EDN: {text[:60]}")

    def _string(self, text: str, line: int) -> str:
        def character(match: re.Match[str]) -> str:
            if match[1][0] == "u" and len(match[1]) == 5:
                return chr(int(match[1][1:], 16))
            if match[1] not in _ESCAPED:
                raise self._error(line, f"unknown escape \\{match[1]} in a string")
            return _ESCAPED[match[1]]

        return _ESCAPE.sub(character, text[1:-1])

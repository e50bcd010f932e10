"""From a YAML file and the environment to Settings, or to errors that say where.

The environment lies over the file: ``CANARY_API__PORT=9000``, ``__`` between levels. Clusters are reached by place or
by name: ``CANARY_CLUSTERS__0__KAFKA__SASL_PASSWORD``, ``CANARY_CLUSTERS__PROD_EU__TOPIC__PARTITIONS`` (name in
capitals, other characters as ``_``). Below ``kafka`` and ``config`` a ``_`` is a dot. A list or mapping as a whole is
YAML.
Variables whose first level names no section and that have no ``__`` are not ours (Kubernetes makes some).
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import yaml
from pydantic import BaseModel, ValidationError

from canary.errors import UserError
from canary.settings.fields import models_in
from canary.settings.model import Settings

PREFIX: Final = "CANARY_"
RESERVED: Final = frozenset({"CANARY_CONFIG", "CANARY_CACHE", "CANARY_MAVEN_URL"})  # the command line's, the lab's
_LISTS: Final = frozenset(
    (name,) for name, one in Settings.model_fields.items() if any(many for _, many in models_in(one.annotation))
)
"""Where the settings have a list of sections: variables reach its members by place or by name."""
FREE_MAPPINGS: Final = frozenset({"kafka", "config"})  # whose keys are Kafka's

_PLAIN_WORDS: Final = {
    "bool_parsing": "must be true or false",
    "dict_type": "must be a mapping, key: value",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "model_attributes_type": "must be a mapping, key: value",
    "model_type": "must be a mapping, key: value",
    "string_type": "must be a text (in quotes, if it looks like a number)",
    "tuple_type": "must be a list, each member on a line that begins with '- '",
}

Place: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in the settings.

    ``source`` is the file's path, or the name of the environment variable, or "settings" where a default is wrong;
    ``line`` counts from 1, None outside files. ``field`` is like ``clusters[0].topic.partitions``.
    """

    source: str
    line: int | None
    field: str
    message: str
    remedy: str

    def __str__(self) -> str:
        """Return ``file:line: field: what is wrong; what to do``."""
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return ": ".join(part for part in (place, self.field, self.message) if part) + (
            f"; {self.remedy}" if self.remedy else ""
        )


class SettingsError(UserError):
    """The settings cannot be used; ``problems`` has every reason, in the order of the file."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        first, *others = problems
        more = f" (and {len(others)} more: canary config check)" if others else ""
        super().__init__(f"{first}{more}")
        self.problems = problems


@dataclass(slots=True)
class _Document:
    """The settings as read, and the source of each part: a line of the file or a variable."""

    source: str
    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[Place, int] = field(default_factory=dict)
    variables: dict[Place, str] = field(default_factory=dict)
    visited: set[int] = field(default_factory=set)

    def origin(self, place: Place) -> tuple[str, int | None]:
        """Return the source of the value at a place, or at the nearest place above it."""
        for length in range(len(place), -1, -1):
            if place[:length] in self.variables:
                return self.variables[place[:length]], None
            if place[:length] in self.lines:
                return self.source, self.lines[place[:length]]
        return self.source, None


def load(path: Path | str | None, environ: Mapping[str, str]) -> Settings:
    """Return the settings of a file (None: the defaults) with the environment over it.

    Raises:
        SettingsError: with every problem found, each with file and line or variable, field, and what to do.
    """
    document = _document(path, environ)
    try:
        return Settings(**document.data)
    except ValidationError as error:
        raise SettingsError(tuple(_problems(document, error))) from None


def problem_at(place: Place, message: str, remedy: str, path: Path | str | None, environ: Mapping[str, str]) -> Problem:
    """Return a problem of the value at a place of settings that can be loaded, with the file or variable that sets it.

    A Kafka property is found by librdkafka's name, however it is spelled there.
    """
    document = _document(path, environ)
    *above, last = place
    spelled = (
        one
        for one in (*document.variables, *document.lines)
        if one[:-1] == tuple(above) and _plain(one[-1]) == _plain(last)
    )
    return Problem(*document.origin(next(spelled, place)), _field_name(place), message, remedy)


def _field_name(place: Place) -> str:
    """Return a place as people write it: ``clusters[0].kafka["sasl.password"]``."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        elif "." in part:
            text += f'["{part}"]'
        else:
            text += f".{part}" if text else part
    return text


def _document(path: Path | str | None, environ: Mapping[str, str]) -> _Document:
    document = _read(Path(path)) if path is not None else _Document("settings")
    _overlay(document, environ)
    return document


def _read(path: Path) -> _Document:
    document = _Document(str(path))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        _fail(document.source, f"cannot be read: {error.strerror}", "name a file that this user may read")
    except UnicodeDecodeError:
        _fail(document.source, "is not UTF-8", "save it as UTF-8")
    if text.lstrip().startswith("{"):
        with suppress(ValueError):
            json.loads(text)
            text = text.replace("\t", " ")  # JSON may be indented with tabs, YAML may not; JSON's strings hold none
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        _fail(document.source, f"is no YAML: {error.problem}", "mend it there or just above", line=line)
    except (yaml.YAMLError, ValueError) as error:
        _fail(document.source, f"is no YAML: {type(error).__name__}", "mend it")
    if node is not None:
        _note_lines(document, node, ())
    if data is not None and not isinstance(data, dict):
        _fail(document.source, "holds no mapping", "write sections, like api: {port: 8080}", line=1)
    for key in data or {}:
        if not isinstance(key, str) or key.startswith("_"):
            place = (str(key),)
            line = document.lines.get(place)
            _fail(document.source, "there is no such setting", _suggestion(place), place, line=line)
    document.data = {key: value for key, value in (data or {}).items() if value is not None}
    return document


def _note_lines(document: _Document, node: yaml.Node, place: Place) -> None:
    if id(node) in document.visited:  # an alias: its lines are those of the anchor
        return
    document.visited.add(id(node))
    document.lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen and name != "<<":
                line = key.start_mark.line + 1
                _fail(document.source, "is there twice", "keep one of the two", (*place, name), line=line)
            seen.add(name)
            document.lines[*place, name] = key.start_mark.line + 1
            _note_lines(document, value, (*place, name))
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            _note_lines(document, value, (*place, at))


def _fail(source: str, message: str, remedy: str, place: Place = (), *, line: int | None = None) -> NoReturn:
    raise SettingsError((Problem(source, line, _field_name(place), message, remedy),)) from None


def _overlay(document: _Document, environ: Mapping[str, str]) -> None:
    """Lay the environment's settings over the document's."""
    for variable in sorted(environ):
        levels = variable.removeprefix(PREFIX).lower().split("__")
        ours = variable.startswith(PREFIX) and variable not in RESERVED
        if ours and (len(levels) > 1 or levels[0] in Settings.model_fields):
            _lay(document, variable, levels, environ[variable])


def _lay(document: _Document, variable: str, levels: list[str], text: str) -> None:
    here: Any = document.data
    place: Place = ()
    for at, level in enumerate(levels):
        key: str | int = level
        if isinstance(here, list):
            key = _member(document, variable, here, level, place)
        elif not isinstance(here, dict):
            problem = f"{_field_name(place)} is no mapping, {level} cannot be set in it"
            _fail(variable, problem, "unset it, or mend the file", place)
        elif FREE_MAPPINGS & set(place[-1:]):
            key = "__".join(levels[at:]).replace("_", ".")
        place = (*place, key)
        if at == len(levels) - 1 or (isinstance(key, str) and "." in key):
            if isinstance(here, dict):
                _forget(here, str(key))
            here[key] = _value(variable, text, place)
            document.variables[place] = variable
            return
        if isinstance(here, dict) and here.get(str(key)) is None:
            here[str(key)] = [] if place in _LISTS else {}
            document.variables.setdefault(place, variable)
        here = here[key]


def _forget(section: dict[str, Any], key: str) -> None:
    """Remove a key that the file spells differently, or gives as a file: the environment overrides it."""
    for other in [one for one in section if _plain(one) == _plain(key)]:
        del section[other]


def _plain(name: object) -> str:
    return str(name).replace("_", ".").removesuffix(".file")


def _member(document: _Document, variable: str, members: list[Any], level: str, place: Place) -> int:
    """Return the place in the list that a level means: a number, at most one past the end, or a member's name."""
    if level.isdigit() and int(level) <= len(members):
        at = int(level)
        if at == len(members):
            members.append({})
            document.variables[(*place, at)] = variable
        return at
    names = [re.sub(r"[^a-z0-9]", "_", str(one.get("name", "")).lower()) for one in members if isinstance(one, dict)]
    if names.count(level) == 1:
        return names.index(level)
    known = ", ".join(name for name in names if name) or "none as yet"
    remedy = f"count from 0 without gaps, or use a name; known: {known}"
    _fail(variable, f"there is no {level!r} in {_field_name(place)}", remedy, place)


def _value(variable: str, text: str, place: Place) -> Any:
    """Return what a variable holds: YAML where a list or mapping is meant, else its text."""
    if FREE_MAPPINGS & set(place[-2:-1]) or not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        _fail(variable, "is no YAML", "quote it as one JSON or YAML value", place)


def _problems(document: _Document, error: ValidationError) -> Iterator[Problem]:
    for one in error.errors(include_url=False, include_input=False):
        context = one.get("ctx") or {}
        place: Place = (*one["loc"], *context.get("under", ()))
        message, remedy = one["msg"], context.get("remedy", "")
        if one["type"] == "extra_forbidden":
            message, remedy = "there is no such setting", _suggestion(place)
        elif not remedy:
            message = _PLAIN_WORDS.get(one["type"], one["msg"])
            message, remedy = message[:1].lower() + message[1:], _description(place)
        yield Problem(*document.origin(place), _field_name(place), message, remedy)


def _suggestion(place: Place) -> str:
    model = _model_at(place[:-1])
    known = sorted(model.model_fields) if model else []
    close = difflib.get_close_matches(str(place[-1]).lower().replace("-", "_"), known, n=1)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"


def _description(place: Place) -> str:
    for length in range(len(place), 0, -1):
        model = _model_at(place[: length - 1])
        described = model.model_fields.get(str(place[length - 1])) if model else None
        if described is not None and described.description:
            return described.description.rstrip(".")
    return ""


def _model_at(place: Place) -> type[BaseModel] | None:
    """Return the model whose fields are below a place, or None below free mappings."""
    model: type[BaseModel] | None = Settings
    for part in place:
        if model is not None and isinstance(part, str):
            described = model.model_fields.get(part)
            model = next((inner for inner, _ in models_in(described.annotation)), None) if described else None
    return model

"""From a YAML file and the environment to Settings, or to errors that say where.

The environment lies over the file: ``CANARY_API__PORT=9000``, ``__`` between levels. Clusters are reached by place or
by name: ``CANARY_CLUSTERS__0__KAFKA__SASL_PASSWORD``, ``CANARY_CLUSTERS__PROD_EU__TOPIC__PARTITIONS`` (name in
capitals, other characters as ``_``). Below ``kafka`` and ``config`` a ``_`` is a dot. A list or mapping as a whole is
YAML.
Variables whose first level names no section and that have no ``__`` are not ours (Kubernetes makes some).
"""

from __future__ import annotations

import difflib
import json
import re
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml
from pydantic import BaseModel, ValidationError

from canary.settings.errors import Problem, SettingsError
from canary.settings.model import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX: Final = "CANARY_"
RESERVED: Final = frozenset({"CANARY_CONFIG", "CANARY_CACHE", "CANARY_MAVEN_URL"})  # the command line's, the lab's
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


@dataclass(slots=True)
class _Document:
    """What was read, and who said each part of it."""

    source: str
    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[Place, int] = field(default_factory=dict)
    variables: dict[Place, str] = field(default_factory=dict)
    visited: set[int] = field(default_factory=set)

    def origin(self, place: Place) -> tuple[str, int | None]:
        """Return who said what stands at a place, or at the nearest place above it."""
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


def where(place: Place, path: Path | str | None, environ: Mapping[str, str]) -> tuple[str, int | None]:
    """Return which file and line, or which variable, says what stands at a place of usable settings.

    A Kafka property is found by librdkafka's name, however it is spelled there.
    """
    document = _document(path, environ)
    *above, last = place
    for said in [*document.variables, *document.lines]:
        if said[:-1] == tuple(above) and _plain(said[-1]) == _plain(last):
            return document.origin(said)
    return document.origin(place)


def field_name(place: Place) -> str:
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
        _fail(document, None, f"cannot be read: {error.strerror}", "name a file that this user may read")
    except UnicodeDecodeError:
        _fail(document, None, "is not UTF-8", "save it as UTF-8")
    if text.lstrip().startswith("{") and _is_json(text):
        text = text.replace("\t", " ")  # JSON may be indented with tabs, YAML may not; within JSON's strings is none
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        _fail(document, mark.line + 1 if mark else None, f"is no YAML: {error.problem}", "mend it there or just above")
    except (yaml.YAMLError, ValueError) as error:
        _fail(document, None, f"is no YAML: {type(error).__name__}", "mend it")
    if node is not None:
        _note_lines(document, node, ())
    if data is not None and not isinstance(data, dict):
        _fail(document, 1, "holds no mapping", "write sections, like api: {port: 8080}")
    for key in data or {}:
        if not isinstance(key, str) or key.startswith("_"):
            _fail(
                document,
                document.lines.get((str(key),)),
                "there is no such setting",
                _suggestion((str(key),)),
                (str(key),),
            )
    document.data = {key: value for key, value in (data or {}).items() if value is not None}
    return document


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


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
                _fail(document, key.start_mark.line + 1, "is there twice", "keep one of the two", (*place, name))
            seen.add(name)
            document.lines[*place, name] = key.start_mark.line + 1
            _note_lines(document, value, (*place, name))
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            _note_lines(document, value, (*place, at))


def _fail(document: _Document, line: int | None, message: str, remedy: str, place: Place = ()) -> typing.NoReturn:
    raise SettingsError((Problem(document.source, line, field_name(place), message, remedy),))


def _overlay(document: _Document, environ: Mapping[str, str]) -> None:
    """Lay the environment's settings over the document's."""
    for variable in sorted(environ):
        levels = variable.removeprefix(PREFIX).split("__")
        if not variable.startswith(PREFIX) or variable in RESERVED:
            continue
        if levels[0].lower() not in Settings.model_fields and len(levels) == 1:
            continue
        _lay(document, variable, [level.lower() for level in levels], environ[variable])


def _lay(document: _Document, variable: str, levels: list[str], text: str) -> None:
    here: Any = document.data
    place: Place = ()
    for at, level in enumerate(levels):
        key: str | int = level
        if isinstance(here, list):
            key = _member(document, variable, here, level)
        elif not isinstance(here, dict):
            problem = f"{field_name(place)} is no mapping, {level} cannot be set in it"
            raise SettingsError((Problem(variable, None, field_name(place), problem, "unset it, or mend the file"),))
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
            here[str(key)] = [] if place == ("clusters",) else {}
            document.variables.setdefault(place, variable)
        here = here[key]


def _forget(section: dict[str, Any], key: str) -> None:
    """Remove what the file says under another spelling of a key, or as a file for it: the environment is over it."""
    for other in [one for one in section if _plain(one) == _plain(key)]:
        del section[other]


def _plain(name: object) -> str:
    return str(name).replace("_", ".").removesuffix(".file")


def _member(document: _Document, variable: str, members: list[Any], level: str) -> int:
    """Return the place in the list that a level means: a number, at most one past the end, or a member's name."""
    if level.isdigit() and int(level) <= len(members):
        at = int(level)
        if at == len(members):
            members.append({})
            document.variables[("clusters", at)] = variable
        return at
    names = [re.sub(r"[^a-z0-9]", "_", str(one.get("name", "")).lower()) for one in members if isinstance(one, dict)]
    if names.count(level) == 1:
        return names.index(level)
    known = ", ".join(name for name in names if name) or "none as yet"
    raise SettingsError(
        (
            Problem(
                variable,
                None,
                "clusters",
                f"there is no cluster {level!r}",
                f"count from 0 without gaps, or use a name; known: {known}",
            ),
        ),
    )


def _value(variable: str, text: str, place: Place) -> Any:
    """Return what a variable holds: YAML where a list or mapping is meant, else its text."""
    if FREE_MAPPINGS & set(place[-2:-1]) or not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise SettingsError(
            (Problem(variable, None, field_name(place), "is no YAML", "quote it as one JSON or YAML value"),),
        ) from None


def _problems(document: _Document, error: ValidationError) -> Iterator[Problem]:
    for one in error.errors(include_url=False, include_input=False):
        context = one.get("ctx") or {}
        place: Place = (*one["loc"], *context.get("under", ()))
        source, line = document.origin(place)
        message, remedy = one["msg"], context.get("remedy", "")
        if one["type"] == "extra_forbidden":
            message, remedy = "there is no such setting", _suggestion(place)
        elif not remedy:
            message = _PLAIN_WORDS.get(one["type"], one["msg"])
            message, remedy = message[:1].lower() + message[1:], _description(place)
        yield Problem(source, line, field_name(place), message, remedy)


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
    """Return the model whose fields stand below a place, or None below free mappings."""
    model: type[BaseModel] = Settings
    for part in place:
        if isinstance(part, int):
            continue
        described = model.model_fields.get(part)
        inner = _models_in(described.annotation) if described else []
        if not inner:
            return None
        model = inner[0]
    return model


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in typing.get_args(annotation) for model in _models_in(inner)]

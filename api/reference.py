"""``python -m api.reference`` writes docs/rest.md from the API's OpenAPI document."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from api.app import create_app
from api.openapi import body_of, operations
from canary.settings import Settings
from storage.store.store import Store

if TYPE_CHECKING:
    from storage.probe_log.reading import ProbeLogReader

PLACE = Path(__file__).parent.parent / "docs" / "rest.md"
HEAD = """# REST reference

Made from the API's own OpenAPI document by `python -m api.reference`; do not edit by hand. The canary serves that
document at `/openapi.json`, and the same as a page at `/docs`.

"""


def rest_reference() -> str:
    """Return the page, in Markdown."""
    nothing = object()  # the description needs neither store nor probe log
    app = create_app(Settings.model_validate({}), cast("Store", nothing), cast("ProbeLogReader", nothing))
    document = app.openapi()
    shapes = document["components"]["schemas"]
    parts = [HEAD, document["info"]["description"], "\n\n"]
    for name, scheme in document["components"]["securitySchemes"].items():
        parts.append(f"* `{name}`: {scheme['description']}\n")
    parts.append("\n")
    for path, method, operation in operations(document):
        parts.extend(_operation(path, method, operation, body_of(document, operation)))
    parts.append("## Shapes\n\n")
    for name in sorted(shapes):
        if name not in {"HTTPValidationError", "ValidationError"}:
            parts.extend(_shape(name, shapes[name]))
    return "".join(parts).rstrip() + "\n"


def _operation(
    path: str, method: str, operation: Mapping[str, Any], body: tuple[str, Mapping[str, Any]] | None
) -> Iterator[str]:
    yield f"## `{method.upper()} {path}`\n\n**{operation['summary']}.** {operation.get('description', '')}\n\n"
    parameters = operation.get("parameters", [])
    if parameters:
        yield "| parameter | in | type | meaning |\n|---|---|---|---|\n"
        for one in parameters:
            needed = " (needed)" if one.get("required") else ""
            yield f"| `{one['name']}`{needed} | {one['in']} | {_type(one['schema'])} | {one.get('description', '')} |\n"
        yield "\n"
    if body is not None:
        name, taken = body
        yield f"Body: {_link(name)}.\n\n"
        for example in taken.get("examples", ()):
            yield f"```json\n{json.dumps(example)}\n```\n\n"
    answers = []
    for status, answer in operation["responses"].items():
        content = answer.get("content", {})
        shape = next((one["schema"] for one in content.values() if "schema" in one), None)
        answers.append(f"{status} {_type(shape) if shape else answer['description']}")
    yield f"Answers: {'; '.join(answers)}.\n\n"


def _shape(name: str, shape: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}\n\n{shape.get('description', '').strip()}\n\n| field | type | meaning |\n|---|---|---|\n"
    for field, schema in shape.get("properties", {}).items():
        yield f"| `{field}` | {_type(schema)} | {schema.get('description', '')} |\n"
    yield "\n"


def _type(schema: Mapping[str, Any]) -> str:
    words = str(schema.get("type", "anything"))
    if "$ref" in schema:
        words = _link(schema["$ref"].rsplit("/", 1)[1])
    elif "anyOf" in schema:
        words = " or ".join(_type(one) for one in schema["anyOf"])
    elif "enum" in schema:
        words = ", ".join(f"`{one}`" for one in schema["enum"])
    elif "const" in schema:
        words = f"`{schema['const']}`"
    elif words == "array":
        words = f"list of {_type(schema['items'])}" if "items" in schema else "list"
    elif schema.get("format") == "date-time":
        words = "time"
    return words


def _link(shape: str) -> str:
    return f"[{shape}](#{shape.lower()})"


def main(arguments: list[str]) -> int:
    """Write the page, or with --check only compare; return the exit status."""
    text = rest_reference()
    if PLACE.is_file() and PLACE.read_text(encoding="utf-8") == text:
        return 0
    print(PLACE)  # noqa: T201  # the command's output
    if "--check" in arguments:
        return 1
    PLACE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

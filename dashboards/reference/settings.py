"""The configuration reference, made from the settings model: every key, its environment variable, default, meaning."""

from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from canary.settings import Settings
from canary.settings.fields import duration_text, models_in

HEAD = """# Configuration reference

Made from the settings model by `python -m dashboards`; do not edit by hand.

Settings are a YAML file (`--config FILE`); every key is also an environment variable. Durations are like `100ms`, `5s`,
`10m`, `1h`, `7d`; sizes like `64MiB`. A secret may come from a file: `{file: PATH}`. `canary config check` names what
is wrong, and where; `canary config show` shows the settings in force.
"""


def settings_reference() -> str:
    """Return the page, in Markdown."""
    parts = [HEAD]
    for place, model in _sections(Settings, ""):
        title = f"`{place}`" if place else "Top level"
        words = " ".join((model.__doc__ or "").split("\n\n")[0].split())
        rows = [
            f"| `{name}` | {_default(field)} | {_cell(field.description or '')} | `{_variable(place, name)}` |"
            for name, field in model.model_fields.items()
        ]
        table = "\n".join(["| key | default | meaning | environment |", "|---|---|---|---|", *rows])
        parts.append(f"## {title}\n\n{words}\n\n{table}\n")
    return "\n".join(parts)


def _sections(model: type[BaseModel], place: str) -> Iterator[tuple[str, type[BaseModel]]]:
    yield place, model
    for name, field in model.model_fields.items():
        for inner, many in models_in(field.annotation):
            yield from _sections(inner, f"{place}.{name}".lstrip(".") + ("[]" if many else ""))


def _variable(place: str, name: str) -> str:
    levels = [*place.replace("[]", ".0").split("."), name] if place else [name]
    return "CANARY_" + "__".join(level.upper() for level in levels)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    if field.default is PydanticUndefined or isinstance(field.default, BaseModel):
        return "see meaning" if field.default_factory else ""
    value = field.default
    if hasattr(value, "get_secret_value"):
        value = value.get_secret_value()
    if value is None or value == ():
        return ""
    if isinstance(value, float) and "(duration)" in (field.description or ""):
        value = duration_text(value)
    return f"`{_cell(', '.join(map(str, value)) if isinstance(value, tuple) else str(value))}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")

"""``canary version``."""

from __future__ import annotations

import importlib.metadata
import json as json_module
import platform
from typing import TYPE_CHECKING, Final

from canary.cli.session import JsonOption  # noqa: TC001  # typer reads it

if TYPE_CHECKING:
    import typer

_PARTS: Final = ("confluent-kafka", "pyarrow", "pyspark", "sqlalchemy", "fastapi")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("version")(version)


def versions() -> dict[str, str]:
    """Return the versions of the canary, of Python and of the libraries whose behaviour matters, where installed."""
    present = {
        found.name.lower(): found.version for part in _PARTS for found in importlib.metadata.distributions(name=part)
    }
    return {
        "canary": importlib.metadata.version("kafka-durability-canary"),
        "python": platform.python_version(),
        **present,
    }


def version(*, json: JsonOption = False) -> None:
    """Say which version this is.

    Example: canary version --json
    """
    found = versions()
    print(json_module.dumps(found) if json else f"canary {found['canary']}")  # noqa: T201  # the report

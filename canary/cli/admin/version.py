"""``canary version``."""

import importlib.metadata
import platform
from typing import Final

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it

_PARTS: Final = ("confluent-kafka", "pyarrow", "pyspark", "sqlalchemy", "fastapi")


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
    """Show which version this is.

    Example: canary version --json
    """
    found = versions()
    session.report(found, f"canary {found['canary']}", json=json)

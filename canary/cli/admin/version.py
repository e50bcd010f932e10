"""``canary version``."""

import importlib.metadata
import platform
from typing import Final

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it

_PARTS: Final = ("confluent-kafka", "pyarrow", "pyspark", "sqlalchemy", "fastapi")
"""The libraries whose behaviour matters; some may not be installed."""


def version(*, json: JsonOption = False) -> None:
    """Show which version this is.

    Example: canary version --json
    """
    canary = importlib.metadata.version("kafka-durability-canary")
    parts = {one.name.lower(): one.version for part in _PARTS for one in importlib.metadata.distributions(name=part)}
    session.report({"canary": canary, "python": platform.python_version(), **parts}, f"canary {canary}", json=json)

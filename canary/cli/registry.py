"""Every command module, in the order in which --help shows them: one line each."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import typer

#: Modules of canary.cli that have ``register(app: typer.Typer) -> None``.
MODULES: Final = (
    "up",
    "run",
    "serve",
    "schedule",
    "smoke",
    "check",
    "dump",
    "reconcile",
    "audit",
    "topics",
    "lab",
    "forget",
    "export",
    "alert",
    "token",
    "config",
    "db",
    "version",
)


def register_all(app: typer.Typer) -> None:
    """Let every module add its commands; one that is named here and not written yet is passed over."""
    for name in MODULES:
        path = f"canary.cli.{name}"
        if importlib.util.find_spec(path) is not None:
            importlib.import_module(path).register(app)

"""What is installed on request only: the extras of pyproject.toml, and the one line that says which one is missing."""

from __future__ import annotations

import importlib.util
from typing import Final
from urllib.parse import urlsplit

from canary.errors import UserError

MODULES: Final = {
    "spark": ("pyspark", "pandas"),
    "pictures": ("plotly",),
    "postgres": ("psycopg",),
    "s3": ("s3fs",),
    "gcs": ("gcsfs",),
    "abfs": ("adlfs",),
}
"""The modules that an extra brings, as far as the canary's code or a library of it asks for them."""
_BY_SCHEME: Final = {
    "postgresql": "postgres",
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "abfs",
    "abfss": "abfs",
    "az": "abfs",
}


def lacking(extra: str, what: str) -> str | None:
    """Return what to say where ``what`` needs an extra that is not installed; None where it is."""
    missing = [name for name in MODULES[extra] if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    return f"{what} needs {' and '.join(missing)}: pip install 'kafka-durability-canary[{extra}]'"


def require(extra: str, what: str) -> None:
    """Refuse ``what``, such as "canary dump", where its extra is not installed.

    Raises:
        UserError: with the remedy. Exit status 2.
    """
    if said := lacking(extra, what):
        raise UserError(said, 2)


def require_for_url(url: str, what: str) -> None:
    """Refuse a URL whose scheme needs an extra that is not installed; ``what`` names its setting or option.

    Raises:
        UserError: with the remedy. Exit status 2.
    """
    scheme = urlsplit(url).scheme.split("+")[0]
    if scheme in _BY_SCHEME:
        require(_BY_SCHEME[scheme], f"{what} ({scheme}://…)")

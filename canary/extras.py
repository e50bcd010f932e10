"""The extras of pyproject.toml, which are installed on request, and the line that names a missing one."""

import importlib.util
from typing import Final
from urllib.parse import urlsplit

from canary.errors import UserError

MODULES: Final = {
    "spark": ("pyspark", "pandas"),
    "pictures": ("plotly",),
    "postgres": ("psycopg",),
    "msk": ("aws_msk_iam_sasl_signer",),
    "s3": ("s3fs",),
    "gcs": ("gcsfs",),
    "abfs": ("adlfs",),
    "hdfs": ("requests",),
    "otlp": ("opentelemetry.proto",),
}
"""The modules that an extra brings, as far as the canary's code or a library of it asks for them."""
_SCHEMES: Final = {
    "postgres": {"postgresql"},
    "s3": {"s3", "s3a"},
    "gcs": {"gs", "gcs"},
    "abfs": {"abfs", "abfss", "az"},
    "hdfs": {"webhdfs"},
}
"""The schemes of URLs that need an extra."""


def lacking(extra: str, what: str) -> str | None:
    """Return what to say where ``what`` needs an extra that is not installed; None where it is."""
    missing = [name for name in MODULES[extra] if not _installed(name)]
    if not missing:
        return None
    return f"{what} needs {' and '.join(missing)}: {remedy(extra)}"


def remedy(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'kafka-durability-canary[{extra}]'"


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it would be in
        return False


def require(extra: str, what: str) -> None:
    """Refuse ``what``, such as "canary dump", where its extra is not installed.

    Raises:
        UserError: with the remedy. Exit status 2.
    """
    if missing := lacking(extra, what):
        raise UserError(missing)


def require_for_url(url: str, what: str) -> None:
    """Refuse a URL whose scheme needs an extra that is not installed, or Hadoop's native library.

    ``what`` names the setting or option of the URL.

    Raises:
        UserError: with the remedy. Exit status 2.
    """
    scheme = urlsplit(url).scheme.split("+")[0]
    if scheme == "hdfs":
        raise UserError(
            f"{what} (hdfs://…) would need Hadoop's native library, which Python does not bring: name the same folder "
            "as webhdfs://NAMENODE:9870/…, by the NameNode's HTTP port"
        )
    for extra, schemes in _SCHEMES.items():
        if scheme in schemes:
            require(extra, f"{what} ({scheme}://…)")

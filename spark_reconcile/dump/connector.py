"""Spark's Kafka source: in Spark's own folder, as in the image, else fetched once into our cache.

``python -m spark_reconcile.connector`` puts it there when an image is built, so that no night needs the internet.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from canary.lab import LabError, jars
from spark_reconcile.errors import UnreachableError


def properties() -> dict[str, str]:
    """Return the Spark properties that bring the Kafka source: none where Spark has it.

    Raises:
        UnreachableError: it has to be fetched, and cannot be.
    """
    if any(_folder().glob("spark-sql-kafka-*.jar")):
        return {}
    try:
        fetched = jars.fetch_connector()
    except LabError as error:
        raise UnreachableError(str(error)) from error
    return {"spark.jars": ",".join(sorted(map(str, fetched.glob("*.jar"))))}


def install() -> None:
    """Put the Kafka source into Spark's own folder.

    Raises:
        LabError: it cannot be fetched.
    """
    for jar in jars.fetch_connector().glob("*.jar"):
        shutil.copy(jar, _folder())


def _folder() -> Path:
    """Return where Spark has its jars."""
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415  # slow, and not everyone needs it

    return Path(_find_spark_home()) / "jars"


if __name__ == "__main__":
    install()

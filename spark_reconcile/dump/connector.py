"""Spark's Kafka source: in Spark's own folder, as in the image, or fetched once into the canary's cache.

``python -m spark_reconcile.dump.connector`` puts it into Spark's folder when an image is built.
"""

import shutil
from pathlib import Path

from canary.lab import LabError
from canary.lab.jars import cache
from spark_reconcile.errors import UnreachableError


def properties() -> dict[str, str]:
    """Return the Spark properties that load the Kafka source: none if it is in Spark's folder.

    Raises:
        UnreachableError: it cannot be fetched.
    """
    if any(_folder().glob("spark-sql-kafka-*.jar")):
        return {}
    try:
        fetched = cache.fetch_connector()
    except LabError as error:
        raise UnreachableError(str(error)) from error
    return {"spark.jars": ",".join(sorted(map(str, fetched.glob("*.jar"))))}


def install() -> None:
    """Put the Kafka source into Spark's own folder.

    Raises:
        LabError: it cannot be fetched.
    """
    for jar in cache.fetch_connector().glob("*.jar"):
        shutil.copy(jar, _folder())


def _folder() -> Path:
    """Return where Spark has its jars."""
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415  # slow, and only used here

    return Path(_find_spark_home()) / "jars"


if __name__ == "__main__":
    install()

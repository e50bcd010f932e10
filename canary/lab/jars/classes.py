"""The JVM's archive of loaded and verified classes (AppCDS, JEP 350): a broker starts with about half of the CPU time.

The first broker of a version that ends in good order writes it, beside the jars. Java holds it against itself and the
jars when it starts, and does without where they differ; nothing but starting depends on it.
"""

import hashlib
import shutil
from pathlib import Path

import structlog

_log = structlog.get_logger(__name__)


def flags(lib: Path, java: str) -> tuple[str, ...]:
    """Return the JVM flags that use the archive, if there is one."""
    archive = _archive(lib, java)
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=error:stderr") if archive.is_file() else ()


def writing(lib: Path, java: str, home: Path) -> tuple[str, ...]:
    """Return the JVM flags that make a broker write the archive when it ends, if there is none."""
    return () if _archive(lib, java).is_file() else (f"-XX:ArchiveClassesAtExit={_written(home)}",)


def keep(lib: Path, java: str, home: Path) -> None:
    """Take the archive that a broker, ended in good order, left in its home directory."""
    written, archive = _written(home), _archive(lib, java)
    if not written.is_file():
        return
    try:
        if not archive.is_file():
            arriving = archive.with_name(f".{archive.name}-{home.parent.name}")
            shutil.copyfile(written, arriving)
            arriving.rename(archive)
        written.unlink()
    except OSError as error:  # a full disk, a cache that only others may write: brokers start without it
        _log.info("class_archive_not_kept", error=str(error))


def _archive(lib: Path, java: str) -> Path:
    """One for each java program, known by its path and time."""
    which = hashlib.blake2s(f"{java} {Path(java).stat().st_mtime_ns}".encode(), digest_size=4).hexdigest()
    return lib / f"classes-{which}.jsa"


def _written(home: Path) -> Path:
    return home / "classes.jsa"

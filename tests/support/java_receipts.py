"""The interceptor that writes receipts in Java producers: its jar, built once, and a producer's properties."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from canary.lab import Lab

ROOT: Final = Path(__file__).parents[2]


@functools.cache
def jar() -> Path:
    """Return the jar, as ``make receipts-java`` builds it."""
    subprocess.run(["make", "--no-print-directory", "receipts-java"], cwd=ROOT, check=True, timeout=500)
    (built,) = (ROOT / "receipts-java" / "target").glob("*.jar")
    return built


def properties(folder: Path, lab: Lab, more: dict[str, object] | None = None) -> Path:
    """Return a file of properties of a producer with receipts in ``folder``/receipts; None leaves one out."""
    own = {
        "bootstrap.servers": lab.bootstrap,
        "interceptor.classes": "canary.receipts.ReceiptInterceptor",
        "canary.receipts.directory": folder / "receipts",
    } | (more or {})
    file = folder / "producer.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in own.items() if value is not None))
    return file

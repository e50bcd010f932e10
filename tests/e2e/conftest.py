"""A real browser, and axe-core.

Chromium is Debian's (or $CHROMIUM); axe-core is fetched from npm's registry once (or $AXE_JS).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.pages import PATIENCE_MS
from tests.support.prometheus import program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

AXE = "axe-core@4.14.1"


@pytest.fixture(scope="session")
def axe() -> str:
    named = os.environ.get("AXE_JS")
    cached = Path(os.environ.get("CANARY_CACHE") or "~/.cache/kafka-durability-canary").expanduser() / f"{AXE}.js"
    if named is None and not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        npm = shutil.which("npm")
        assert npm, "npm is missing: install it (it fetches axe-core), or set AXE_JS"
        packed = subprocess.run([npm, "pack", "--silent", AXE], cwd=cached.parent, check=True, capture_output=True)
        archive = cached.parent / packed.stdout.decode().split()[-1]
        with tarfile.open(archive) as files:
            member = files.extractfile("package/axe.min.js")
            assert member is not None
            cached.write_bytes(member.read())
        archive.unlink()
    return Path(named or cached).read_text(encoding="utf-8")


@pytest.fixture(scope="module")  # no longer: until it ends this thread has a loop, and nothing else may run one
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # not for tests that need no browser

    found = program("CHROMIUM", "chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"], timeout=PATIENCE_MS)
        yield running
        running.close()

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from api.reference import PLACE, rest_reference
from canary.settings.serving import ApiSettings, AuthSettings, OidcSettings
from dashboards.__main__ import ROOT
from dashboards.reference.settings import settings_reference
from dashboards.rules import GROUPS
from tests.support.command import canary

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.dear("builds the documents")
def test_the_documents_build_without_a_dead_link(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    for rules in GROUPS.values():
        for rule in rules:
            assert (tmp_path / "site" / "runbooks" / rule.name / "index.html").is_file()


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("nav:\n")[1]))
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in (*docs.glob("*.md"), *docs.glob("design/*.md"))}
    assert named - {"runbooks/index.md"} == pages
    index = (ROOT / "docs/runbooks/index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs/runbooks").glob("Canary*.md"):
        assert f"({page.name})" in index


def test_pictures_that_pages_show_are_there_and_no_others() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    shown = set(re.findall(r"\]\((screenshots/[^)#]+)", text))
    assert shown == {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs/screenshots").iterdir()}


def test_the_reference_of_rest_is_what_the_api_says_of_itself() -> None:
    assert PLACE.read_text(encoding="utf-8") == rest_reference(), "run: python -m api.reference"


def test_links_to_files_of_the_repository_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            assert link.startswith("http") or (page.parent / link).exists(), f"{page.name}: {link}"


def test_commands_in_the_pages_exist() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    said = {words for page in pages for words in re.findall(r"`?canary ([a-z]+(?: [a-z]+)?)", _code(page))}
    assert len(said) > 10
    for words in said:
        parts = words.split()
        known = any(canary(*parts[:count], "--help").status == 0 for count in (2, 1) if parts[:count])
        assert known, f"canary {words}"


def _code(page: Path) -> str:
    """What stands in code on a page, each on a line."""
    text = page.read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL) + re.findall(r"`(canary [^`]*)`", text))


def test_every_setting_is_in_the_reference() -> None:
    page = settings_reference()
    for model, prefix in ((ApiSettings, "API"), (AuthSettings, "API__AUTH"), (OidcSettings, "API__AUTH__OIDC")):
        for name in model.model_fields:
            assert f"`CANARY_{prefix}__{name.upper()}`" in page
    assert "| `metrics_cache` | `1s` |" in page

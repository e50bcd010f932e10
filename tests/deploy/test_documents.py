from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from canary.settings.serving import ApiSettings, AuthSettings, OidcSettings
from dashboards.__main__ import ROOT
from dashboards.rules import groups
from dashboards.settings_reference import settings_reference

if TYPE_CHECKING:
    from pathlib import Path


def test_the_documents_build_without_a_dead_link(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    for rules in groups().values():
        for rule in rules:
            assert (tmp_path / "site" / "runbooks" / rule.name / "index.html").is_file()


def test_every_setting_is_in_the_reference() -> None:
    page = settings_reference()
    for model, prefix in ((ApiSettings, "API"), (AuthSettings, "API__AUTH"), (OidcSettings, "API__AUTH__OIDC")):
        for name in model.model_fields:
            assert f"`CANARY_{prefix}__{name.upper()}`" in page
    assert "| `metrics_cache` | `1s` |" in page

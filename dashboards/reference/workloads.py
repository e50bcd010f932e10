"""The table of workloads in docs/modes.md, whose other parts are written by hand."""

import re
from pathlib import Path
from typing import Final

from canary.workloads.catalogue import WORKLOADS

HEAD: Final = "| mode | what it does | what it finds | what it costs |\n|---|---|---|---|\n"
_TABLE: Final = re.compile(re.escape(HEAD) + r"(?:\|.*\n)*")


def with_table(page: Path) -> str:
    """Return the text of a page with its table of workloads as the descriptors say."""
    rows = "".join(f"| `{one.name}` | {one.does} | {one.finds} | {one.costs} |\n" for one in WORKLOADS.values())
    return _TABLE.sub(lambda _: HEAD + rows, page.read_text(encoding="utf-8"))

"""The files of a reconciliation, to be compared with another one's; alone it runs in a container of the image."""

from __future__ import annotations

import re
import sys

import fsspec

_MADE = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
"""When a report was made."""


def files(url: str) -> dict[str, bytes]:
    """Return a run's files by their names, without when and where it was."""
    filesystem, root = fsspec.core.url_to_fs(url)
    found = {path.removeprefix(root): filesystem.cat_file(path) for path in filesystem.find(root)}
    return {name: _MADE.sub(b"then", content.replace(url.encode(), b"out")) for name, content in found.items()}


if __name__ == "__main__":
    one, other = map(files, sys.argv[1:])
    if one != other:
        sys.exit(f"differ: {[name for name in {**one, **other} if one.get(name) != other.get(name)]}")
    sys.stdout.write(f"{len(one)}")

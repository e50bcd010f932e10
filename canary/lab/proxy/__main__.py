"""``python -m canary.lab.proxy DIRECTORY/proxy``: the proxy of the lab in a directory, until it is killed."""

import asyncio
import os
import sys
from pathlib import Path

from canary.lab import state
from canary.lab.proxy.proxy import Proxy
from canary.lab.site import Site


def main() -> None:
    """Serve from the proxy's own folder, so that the socket's path is short."""
    folder = Path(sys.argv[1])
    found = state.load(folder.parent)
    if found is None:
        sys.exit(f"no lab in {folder.parent}")
    os.chdir(folder)
    asyncio.run(Proxy(Site(folder.parent, found, die_with_parent=False)).serve())


if __name__ == "__main__":
    main()

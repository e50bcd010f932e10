"""``python -m tests.mutations``: see the package."""

from __future__ import annotations

import sys

from tests.mutations.running import main

sys.exit(main(sys.argv[1:]))

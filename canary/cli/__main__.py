"""``python -m canary.cli``: the same as ``canary``."""

from canary.cli import main

main()

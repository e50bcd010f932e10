"""What the process has imported from which tests fork others: half of a canary's start is its libraries."""

import importlib

from canary.footprint import keep_quiet, keep_small

keep_small()  # as ``canary run`` and ``canary serve`` do, before Arrow is loaded
for name in (
    "alembic.autogenerate",
    "canary.processes.run",
    "canary.processes.serve",
    "hypothesis",
    "pytest",
    "tests.support.forks",
):
    importlib.import_module(name)
keep_quiet()

# ruff: noqa: INP001  # a script for spark-submit, not a package
"""What spark-submit starts, on any master: ``spark-submit … canary_job.py reconcile --probe-log … --dump … --out …``.

The arguments are those of the ``canary`` command (reconcile, dump, check --engine spark).
"""

from canary.cli import main

if __name__ == "__main__":
    main()

"""``canary check --engine spark``: recorded histories that are too large for one process."""

"""Receipts that applications' producers keep, against their topics as they are: docs/receipts.md."""

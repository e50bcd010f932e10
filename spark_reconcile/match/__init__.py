"""Probe log against dump, as pure functions over columns: one verdict for each identity."""

"""Drills about readers: what a consumer is given is not what the log holds."""

"""Drills of the database behind the canary: what it remembers, and whether it says that it cannot show it."""

"""Drills about producers without transactions: retries, order, acknowledgements."""

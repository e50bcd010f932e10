"""Drills about the canary itself: killed, blind, out of memory or of room, or with another clock."""

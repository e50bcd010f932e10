"""Drills about the canary itself: killed, blind, out of memory or of room, with another clock or without its store."""

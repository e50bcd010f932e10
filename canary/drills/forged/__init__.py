"""Drills that forge probes: an ordinary producer writes bytes that no sound cluster would hold."""

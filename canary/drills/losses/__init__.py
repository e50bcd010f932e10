"""Drills in which acknowledged records are lost."""

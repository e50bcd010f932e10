"""Drills about replicas: page caches, in-sync replicas, elections."""

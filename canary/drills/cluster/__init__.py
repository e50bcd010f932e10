"""Drills about the cluster's metadata and what operators do to it: topics, controllers, committed offsets."""

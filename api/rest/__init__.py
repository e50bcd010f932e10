"""REST: one file for each resource, with its routes and their bodies."""

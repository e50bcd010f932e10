"""The outcome of drills for people, for scripts, and as a page."""

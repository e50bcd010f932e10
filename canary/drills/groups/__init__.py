"""Drills about consumer groups: what the settings of an ordinary application lose, and what they process twice."""

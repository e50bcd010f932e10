"""The table of parts, what happens when one ends, and the lease of a runner name."""

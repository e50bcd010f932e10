"""The cluster's topology over time, and what in it is wrong: conditions, elections, regressions, stalled readers."""

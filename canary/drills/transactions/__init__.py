"""Drills about transactions: markers, coordinators, fencing, what read_committed is shown."""

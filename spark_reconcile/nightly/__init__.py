"""When reconciliations run, and one of them from end to end."""

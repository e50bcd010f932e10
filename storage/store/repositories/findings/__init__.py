"""How what was found becomes rows: which records are known already, which incident they join, and what heads it."""

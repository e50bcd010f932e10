"""How long what is watched has not been looked at."""


def not_looked_at(at_ns: int, now_ns: int, most_s: float, words: str = "not looked at") -> str | None:
    """Return why nothing is known any more of what was seen at ``at_ns``; None: that is at most ``most_s`` ago."""
    age_s = (now_ns - at_ns) / 1e9
    return None if age_s <= most_s else f"{words} for {age_s:.0f} s"

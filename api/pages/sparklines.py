"""Small pictures of a value over the last half hour, as lines of an SVG; a gap where nothing is known."""

from itertools import groupby
from typing import Final

from api.knowledge.trends import POINTS, STEP_S, Trend

WIDTH: Final = 160
HEIGHT: Final = 32
SPAN_S: Final = POINTS * STEP_S
_GAP_S: Final = 90.0
"""Two points that are further apart are not joined: nobody asked meanwhile."""


def lines(trend: Trend) -> list[str]:
    """Return the ``points`` of a polyline for each stretch that is known without a gap; time goes to the right."""
    most = trend.most or 1.0
    known = [(number, age, value) for number, (age, value) in enumerate(zip(*trend, strict=True)) if value is not None]
    stretches: list[list[tuple[float, float]]] = []
    for _, members in groupby(enumerate(known), key=lambda one: one[1][0] - one[0]):
        last_age: float | None = None
        for _, (_, age, value) in members:
            x = WIDTH * max(0.0, 1 - age / SPAN_S)
            y = HEIGHT - 2 - (HEIGHT - 4) * value / most
            if last_age is None or last_age - age > _GAP_S:
                stretches.append([])
            stretches[-1].append((x, y))
            last_age = age
    return [" ".join(f"{x:.1f},{y:.1f}" for x, y in _seen(one)) for one in stretches]


def _seen(stretch: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return a stretch with something to see: a single point has no length."""
    (x, y), *rest = stretch
    return stretch if rest else [(x - 1, y), (x, y)]

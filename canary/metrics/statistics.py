"""How sure a run without losses makes us: exact bounds, in plain Python (the API, the pages and Spark use the same).

"0 lost in N" never means "no losses": it means that the loss rate is, with 95 % confidence, below some p. The exact
one-sided bound (Clopper and Pearson, 1934) is the p at which seeing so few losses would have had a chance of 5 %:
``P(X <= lost | acked, p) = 0.05``. RECONCILIATION rule 5.
"""

import functools
import math

_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


@functools.lru_cache(maxsize=1024)
def loss_rate_upper_95(lost: int, acked: int) -> float | None:
    """Return the one-sided 95 % upper bound of the loss rate (lost per acknowledged probe); None if nothing was acked.

    Exact to about 12 significant digits for any ``acked``; 0 lost has the closed form ``1 - 0.05 ** (1 / acked)``.

    Raises:
        ValueError: not 0 <= lost <= acked.
    """
    return upper_bound(lost, acked, 0.05)


def upper_bound(successes: int, trials: int, alpha: float) -> float | None:
    """Return the p with ``P(X <= successes) = alpha`` for X ~ Binomial(trials, p); None for no trials.

    Raises:
        ValueError: not 0 <= successes <= trials, or alpha is not between 0 and 1.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} of {trials}: expected 0 <= successes <= trials")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}: expected 0 < alpha < 1")
    if trials == 0:
        return None
    if successes == trials:
        return 1.0
    if successes == 0:
        return -math.expm1(math.log(alpha) / trials)
    return _solve(successes, trials, math.log(alpha))


def _solve(k: int, n: int, target: float) -> float:
    """Find p with ``log P(X <= k) = target``: Newton's steps on the logarithm, bisection when one leaves the bracket.

    The logarithm of the distribution is concave in p, so Newton's steps stay on one side and end quickly (< 20).
    """
    low, high = k / n, 1.0
    p = min((k + 1.65 * math.sqrt(k + 1) + 1) / n, (low + high) / 2)
    for _ in range(200):
        log_pmf, ratio = _log_pmf(k, n, p), _tail_over_pmf(k, n, p)
        excess = log_pmf + math.log(ratio) - target
        if excess > 0:
            low = p
        else:
            high = p
        step = excess * ratio * (1 - p) / (n - k)  # d log P / dp = -(n - k) / (1 - p) / ratio
        following = p + step
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - p) <= 4e-16 * p:
            return following
        p = following
    return p


def _tail_over_pmf(k: int, n: int, p: float) -> float:
    """Return ``P(X <= k) / P(X = k)``: a sum of falling positive terms for p > k/n, so nothing cancels."""
    odds = (1 - p) / p
    total = term = 1.0
    for i in range(k, 0, -1):
        term *= i / (n - i + 1) * odds
        total += term
        if term < 1e-17 * total:
            break
    return total


def _log_pmf(k: int, n: int, p: float) -> float:
    """Return ``log P(X = k)`` for 0 < k < n, by Loader's saddle point: no difference of huge log-gammas."""
    return (
        _stirling_error(n)
        - _stirling_error(k)
        - _stirling_error(n - k)
        - _deviance(k, n * p)
        - _deviance(n - k, n * (1 - p))
        + 0.5 * (math.log(n) - math.log(2 * math.pi) - math.log(k) - math.log(n - k))
    )


def _stirling_error(n: int) -> float:
    """Return ``log n! - log(sqrt(2 pi n) (n / e)^n)``."""
    if n < 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi)
    return math.fsum(c / float(n) ** (2 * i + 1) for i, c in enumerate(_STIRLING))


def _deviance(x: float, mean: float) -> float:
    """Return ``x log(x / mean) + mean - x`` without cancellation when x is close to mean."""
    difference = x - mean
    if abs(difference) >= 0.1 * (x + mean):
        return x * math.log(x / mean) + mean - x
    v = difference / (x + mean)
    total = difference * v
    term = 2 * x * v
    for j in range(1, 1000):
        term *= v * v
        following = total + term / (2 * j + 1)
        if following == total:
            break
        total = following
    return total

"""Two functions that the standard library lacks: the incomplete beta integral with its inverse, and Poisson limits."""

from __future__ import annotations

import math
from collections.abc import Callable

_TINY = 1e-300
_EPSILON = 1e-15
_STEPS = 200


def beta_cdf(x: float, a: float, b: float) -> float:
    """Regularized incomplete beta integral I_x(a, b), for a and b above 0 and x between 0 and 1.

    Lentz's continued fraction (Press et al., Numerical Recipes, 6.4; DLMF 8.17.22). Good to about 1e-9 for a + b up to ten
    million; it takes some √(a + b) steps.
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):  # the fraction converges quickly on the other side only
        return 1.0 - _fraction(1.0 - x, b, a)
    return _fraction(x, a, b)


def beta_quantile(p: float, a: float, b: float) -> float:
    """The x with I_x(a, b) = `p`, by Newton's method inside a bracket that each step makes smaller."""
    if p <= 0.0:
        return 0.0
    if p >= 1.0:
        return 1.0
    low, high = 0.0, 1.0
    x = a / (a + b)
    for _ in range(_STEPS):
        error = beta_cdf(x, a, b) - p
        if error > 0.0:
            high = x
        else:
            low = x
        density = math.exp(_log_power(x, a, b)) / (x * (1.0 - x))
        step = x - error / density if density > 0.0 else -1.0
        following = step if low < step < high else (low + high) / 2.0
        if abs(following - x) <= 1e-14 * x or following in (0.0, 1.0):
            return following
        x = following
    return x


def poisson_limits(count: int, tail: float) -> tuple[float, float]:
    """The smallest and the largest mean under which `count` or more, or `count` or fewer, have the probability `tail`.

    Exact limits of a Poisson mean (Garwood, 1936), by bisection. `count` 0 or more, `tail` above 0 and below ½.
    """
    high = 2.0 * count - 4.0 * math.log(tail) + 10.0
    low_limit = 0.0 if count == 0 else _bisect(lambda mean: 1.0 - _poisson_cdf(count - 1, mean) - tail, high)
    return low_limit, _bisect(lambda mean: tail - _poisson_cdf(count, mean), high)


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, _inverse(1.0 - (a + b) * x / (a + 1.0))
    total = d
    for m in range(1, 1000 + int(10.0 * math.sqrt(a + b))):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d, c = _inverse(1.0 + even * d), _apart(1.0 + even / c)
        total *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d, c = _inverse(1.0 + odd * d), _apart(1.0 + odd / c)
        total *= d * c
        if abs(d * c - 1.0) < _EPSILON:
            break
    return min(math.exp(_log_power(x, a, b)) * total / a, 1.0)


def _log_power(x: float, a: float, b: float) -> float:
    """log of xᵃ(1−x)ᵇ / B(a, b)."""
    whole = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return whole + a * math.log(x) + b * math.log1p(-x)


def _apart(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _inverse(value: float) -> float:
    return 1.0 / _apart(value)


def _poisson_cdf(count: int, mean: float) -> float:
    if mean <= 0.0:
        return 1.0
    return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count + 1))


def _bisect(rising: Callable[[float], float], high: float) -> float:
    low = 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        if rising(middle) < 0.0:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0

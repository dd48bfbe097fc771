"""Quantities as platforms write them: ``1.25GBps``, ``24us``, ``1Gf``; SimGrid's units and prefixes."""

from __future__ import annotations

import math
import re

from labkit.errors import PlatformError

__all__ = ["format_bandwidth", "format_speed", "format_time", "parse_bandwidth", "parse_speed", "parse_time"]

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµμ]*)")
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_BANDWIDTHS = {p + "Bps": f for p, f in {**_PREFIXES, **_BINARY}.items()} | {
    p + "bps": f / 8 for p, f in {**_PREFIXES, **_BINARY}.items()
}
# Times are divided, not multiplied: 24us is then the double nearest to 24e-6.
_TIMES = {"s": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "μs": 1e6, "ns": 1e9, "ps": 1e12}
_SPEEDS = {p + unit: f for p, f in _PREFIXES.items() for unit in ("f", "flops")}


def _parse(text: str, units: dict[str, float], what: str, example: str) -> tuple[float, float]:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise PlatformError(f"{what} {text!r} is not a number with a unit; write it like {example}")
    number, unit = float(match[1]), match[2]
    if unit not in units:
        arrived = f"has the unknown unit {unit!r}" if unit else "has no unit"
        raise PlatformError(f"{what} {text!r} {arrived}; allowed: {', '.join(units)} (for example {example})")
    if not math.isfinite(number):
        raise PlatformError(f"{what} {text!r} is not finite; write it like {example}")
    return number, units[unit]


def parse_bandwidth(text: str) -> float:
    """Read a bandwidth, ``1.25GBps`` (bytes) or ``10Gbps`` (bits), as bytes per second.

    Parameters
    ----------
    text : str
        A positive number followed by Bps or bps with a prefix (k, M, G, T; Ki, Mi, Gi, Ti).

    Returns
    -------
    float
        Bytes per second.

    Raises
    ------
    PlatformError
        If it is not a number with a known unit, or not positive.

    Examples
    --------
    >>> parse_bandwidth("10Gbps") == parse_bandwidth("1.25GBps") == 1.25e9
    True
    """
    number, factor = _parse(text, _BANDWIDTHS, "bandwidth", "1.25GBps or 10Gbps")
    if number <= 0:
        raise PlatformError(f"bandwidth {text!r} must be positive, for example 1.25GBps")
    return number * factor


def parse_time(text: str) -> float:
    """Read a time such as ``24us`` as seconds; a bare 0 is allowed.

    Raises
    ------
    PlatformError
        If it is not a number with a known unit (s, ms, us, ns, ps), or negative.

    Examples
    --------
    >>> parse_time("24us"), parse_time("0")
    (2.4e-05, 0.0)
    """
    if text.strip() == "0":
        return 0.0
    number, factor = _parse(text, _TIMES, "latency", "1us")
    if number < 0:
        raise PlatformError(f"latency {text!r} must not be negative, for example 1us")
    return number / factor


def parse_speed(text: str) -> float:
    """Read a computing speed such as ``1Gf`` as flop per second.

    Raises
    ------
    PlatformError
        If it is not a number with a known unit (f or flops with a prefix), or not positive.

    Examples
    --------
    >>> parse_speed("1Gf"), parse_speed("16.7Gflops")
    (1000000000.0, 16700000000.0)
    """
    number, factor = _parse(text, _SPEEDS, "speed", "1Gf")
    if number <= 0:
        raise PlatformError(f"speed {text!r} must be positive, for example 1Gf")
    return number * factor


def _format(value: float, units: tuple[tuple[str, float], ...]) -> str:
    """Write a value so that reading it gives the same double: the shortest such spelling."""
    for unit, factor in units:
        if value >= factor or (unit, factor) == units[-1]:
            short = f"{value / factor:.6g}"
            if float(short) * factor == value:
                return short + unit
            break
    return f"{value!r}{units[-1][0]}"


def format_bandwidth(bytes_per_s: float) -> str:
    """Write a bandwidth so that `parse_bandwidth` gives the same number back.

    Examples
    --------
    >>> format_bandwidth(1.25e9)
    '1.25GBps'
    """
    return _format(bytes_per_s, (("TBps", 1e12), ("GBps", 1e9), ("MBps", 1e6), ("kBps", 1e3), ("Bps", 1.0)))


def format_speed(flops: float) -> str:
    """Write a speed so that `parse_speed` gives the same number back.

    Examples
    --------
    >>> format_speed(1e9)
    '1Gf'
    """
    return _format(flops, (("Tf", 1e12), ("Gf", 1e9), ("Mf", 1e6), ("kf", 1e3), ("f", 1.0)))


def format_time(seconds: float) -> str:
    """Write a time so that `parse_time` gives the same number back.

    Examples
    --------
    >>> format_time(2.4e-05), format_time(0.0)
    ('24us', '0s')
    """
    for unit, per_second in (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)):
        short = f"{seconds * per_second:.6g}"
        if (float(short) >= 1 or seconds == 0) and float(short) / per_second == seconds:
            return short + unit
    return f"{seconds!r}s"

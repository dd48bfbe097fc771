"""Quantities as SimGrid's files write them: labkit's units, further ones, and numbers without any."""

from __future__ import annotations

import re

from labkit.errors import PlatformError
from labkit.platform import quantities as units

__all__ = ["bandwidth", "latency", "speed", "whole"]

_BARE = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_TIMES = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0}
_SPEEDS = {
    "kilo": "k", "mega": "M", "giga": "G", "tera": "T", "peta": "P", "exa": "E", "zetta": "Z", "yotta": "Y",
}  # fmt: skip
_FAR = {"E": 1e18, "Z": 1e21, "Y": 1e24}


def _split(text: str) -> tuple[str, str]:
    """Number and unit."""
    if len(text) > 100:
        raise PlatformError(f"{text[:40]!r}... is not a number with a unit")
    found = _BARE.match(text)
    return (found[0].strip(), text[found.end() :].strip()) if found else (text, "?")


def bandwidth(text: str) -> float:
    """Read bytes per second; a bare number has that unit.

    Raises
    ------
    PlatformError
        Not a positive number with a known unit.
    """
    number, unit = _split(text)
    factor = {
        "EBps": 1e18,
        "Ebps": 0.125e18,
        "PiBps": 2.0**50,
        "Pibps": 2.0**47,
        "EiBps": 2.0**60,
        "Eibps": 2.0**57,
    }
    if unit in factor:
        return units.parse_bandwidth(number + "Bps") * factor[unit]
    return units.parse_bandwidth(number + "Bps" if not unit else text)


def latency(text: str) -> float:
    """Read seconds; a bare number has that unit.

    Raises
    ------
    PlatformError
        Not a number from 0 on with a known unit.
    """
    number, unit = _split(text)
    if unit in _TIMES:
        return units.parse_time(number + "s") * _TIMES[unit]
    return units.parse_time(number + "s" if not unit else text)


def speed(text: str) -> float:
    """Read flop per second; a bare number has that unit.

    Raises
    ------
    PlatformError
        Not a positive number with a known unit.
    """
    number, unit = _split(text)
    for word, letter in _SPEEDS.items():
        if unit == word + "flops":
            unit = letter + "f"
    if unit[:1] in _FAR and unit[1:] == "f":
        return units.parse_speed(number + "f") * _FAR[unit[:1]]
    return units.parse_speed(f"{number}{unit or 'f'}")


def whole(text: str, what: str, most: int = 2**31 - 1) -> int:
    """Read a whole number from 1 on.

    Raises
    ------
    PlatformError
        It is something else, or too large.
    """
    if not (text.isascii() and text.strip().isdigit()) or len(text) > 12 or not 1 <= int(text) <= most:
        raise PlatformError(f"{what} {text[:40]!r} is not a whole number from 1 to {most:,}")
    return int(text)

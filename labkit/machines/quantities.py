"""Quantities as platforms write them: ``1.25GBps``, ``24us``, ``1Gf``; SimGrid's units and prefixes.

SimGrid's files know further units than labkit's specifications, and numbers without any: ``is_simgrid``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from labkit.errors import MachineError, PlatformError

__all__ = [
    "LONGEST_S",
    "Storage",
    "format_bandwidth",
    "format_speed",
    "format_time",
    "parse_bandwidth",
    "parse_speed",
    "parse_time",
    "parse_whole",
    "storage_of",
]


_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµμ]*)")
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_BANDWIDTHS = {p + "Bps": f for p, f in {**_PREFIXES, **_BINARY}.items()} | {
    p + "bps": f / 8 for p, f in {**_PREFIXES, **_BINARY}.items()
}
# Times are divided, not multiplied: 24us is then the double nearest to 24e-6.
_TIMES = {"s": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "μs": 1e6, "ns": 1e9, "ps": 1e12}
_SPEEDS = {p + unit: f for p, f in _PREFIXES.items() for unit in ("f", "flops")}
#: a latency of thirty years; sums of longer ones would leave the range of numbers, and never arrive
LONGEST_S = 1e9
#: of a link or a host, in bytes or operations per second; its inverse is the fastest
_SLOWEST = 1e-30
#: further units of SimGrid's files; a bare number has the unit ""
_MORE_BANDWIDTHS = {
    "": 1.0,
    "EBps": 1e18,
    "Ebps": 0.125e18,
    "ZBps": 1e21,
    "Zbps": 0.125e21,
    "YBps": 1e24,
    "Ybps": 0.125e24,
    "PiBps": 2.0**50,
    "Pibps": 2.0**47,
    "EiBps": 2.0**60,
    "Eibps": 2.0**57,
}
_LONG_TIMES = {"": 1.0, "w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0}
_MORE_SPEEDS = {"": 1.0, "Ef": 1e18, "Zf": 1e21, "Yf": 1e24} | {
    word + "flops": f
    for word, f in {
        "kilo": 1e3,
        "mega": 1e6,
        "giga": 1e9,
        "tera": 1e12,
        "peta": 1e15,
        "exa": 1e18,
        "zetta": 1e21,
        "yotta": 1e24,
    }.items()
}


def _parse(
    text: str, units: dict[str, float], more: dict[str, float] | None, what: str, example: str
) -> tuple[float, float]:
    """Number and factor of a quantity; `more` are units that messages leave out."""
    if len(text) > 100:
        raise PlatformError(
            f"{what} {text[:40]!r}... is not a number with a unit; write it like {example}",
            code="malformed-value",
        )
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise PlatformError(
            f"{what} {text!r} is not a number with a unit; write it like {example}", code="malformed-value"
        )
    number, unit = float(match[1]), match[2]
    if more is not None and unit in more:
        units = more
    if unit not in units:
        arrived = f"has the unknown unit {unit!r}" if unit else "has no unit"
        raise PlatformError(
            f"{what} {text!r} {arrived}; allowed: {', '.join(units)} (for example {example})",
            code="malformed-value",
        )
    if not math.isfinite(number):
        raise PlatformError(f"{what} {text!r} is not finite; write it like {example}", code="not-finite")
    return number, units[unit]


def _in_range(rate: float, what: str, text: str, unit: str) -> float:
    if not _SLOWEST <= rate <= 1 / _SLOWEST:
        raise PlatformError(
            f"{what} {text!r} is not between {_SLOWEST:g}{unit} and {1 / _SLOWEST:g}{unit}",
            code="out-of-range",
        )
    return rate


def parse_bandwidth(text: str, is_simgrid: bool = False) -> float:
    """Read a bandwidth, ``1.25GBps`` (bytes) or ``10Gbps`` (bits), as bytes per second.

    Examples
    --------
    >>> parse_bandwidth("10Gbps") == parse_bandwidth("1.25GBps") == 1.25e9
    True
    """
    number, factor = _parse(
        text, _BANDWIDTHS, _MORE_BANDWIDTHS if is_simgrid else None, "bandwidth", "1.25GBps or 10Gbps"
    )
    if number <= 0:
        raise PlatformError(f"bandwidth {text!r} must be positive, for example 1.25GBps", code="out-of-range")
    return _in_range(number * factor, "bandwidth", text, "Bps")


def parse_time(text: str, is_simgrid: bool = False, what: str = "latency") -> float:
    """Read a time such as ``24us`` as seconds; a bare 0 is allowed, in SimGrid's files any number.

    Examples
    --------
    >>> parse_time("24us"), parse_time("0")
    (2.4e-05, 0.0)
    """
    if text.strip() == "0":
        return 0.0
    number, factor = _parse(text, _TIMES, _LONG_TIMES if is_simgrid else None, what, "1us")
    if number < 0:
        raise PlatformError(f"{what} {text!r} must not be negative, for example 1us", code="out-of-range")
    seconds = number * factor if text.strip()[-1] in "wdhm" else number / factor
    if seconds > LONGEST_S:
        raise PlatformError(
            f"{what} {text!r} is longer than {LONGEST_S:g} s; write it like 1us", code="out-of-range"
        )
    return seconds


def parse_speed(text: str, is_simgrid: bool = False) -> float:
    """Read a computing speed such as ``1Gf`` as flop per second; SimGrid also writes ``1gigaflops``.

    Examples
    --------
    >>> parse_speed("1Gf"), parse_speed("16.7Gflops")
    (1000000000.0, 16700000000.0)
    """
    number, factor = _parse(text, _SPEEDS, _MORE_SPEEDS if is_simgrid else None, "speed", "1Gf")
    if number <= 0:
        raise PlatformError(f"speed {text!r} must be positive, for example 1Gf", code="out-of-range")
    return _in_range(number * factor, "speed", text, "f")


def parse_whole(text: str, what: str, most: int = 2**31 - 1) -> int:
    """Read a whole number from 1 on."""
    if not (text.isascii() and text.strip().isdigit()) or len(text) > 12 or not 1 <= int(text) <= most:
        raise PlatformError(
            f"{what} {text[:40]!r} is not a whole number from 1 to {most:,}", code="out-of-range"
        )
    return int(text)


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


# The storage of a simulated run's files: a file server's bandwidth and latency.


@dataclass(frozen=True)
class Storage:
    """What the files of a run are on (see `labkit.comm.files`).

    `bandwidth`: Bytes per second of all requests together.
    `latency_s`: What every request takes in addition.
    """

    bandwidth: float = 1e9
    latency_s: float = 1e-3

    def __str__(self) -> str:
        return f"bw={format_bandwidth(self.bandwidth)},lat={format_time(self.latency_s)}"


def storage_of(value: object) -> Storage:
    """Read the option `storage` of a run.

    Examples
    --------
    >>> storage_of("lat=500us")
    Storage(bandwidth=1000000000.0, latency_s=0.0005)
    """
    if value is None:
        return Storage()
    if isinstance(value, Storage):
        return value
    if not isinstance(value, str):
        raise MachineError(
            f"storage={value!r} is not known; write storage='bw=2GBps,lat=500us'", code="malformed-value"
        )
    given: dict[str, float] = {}
    for part in filter(None, value.split(",")):
        name, _, text = part.partition("=")
        read = {"bw": parse_bandwidth, "lat": parse_time}.get(name.strip())
        if read is None or name.strip() in given:
            twice = "is given twice" if name.strip() in given else "is not known"
            raise MachineError(
                f"storage={value!r}: {name.strip()!r} {twice}; allowed: bw=2GBps and lat=500us",
                code="malformed-value",
            )
        try:
            given[name.strip()] = read(text.strip())
        except PlatformError as error:
            raise MachineError(f"storage={value!r}: {error}", code="malformed-value") from None
    return Storage(given.get("bw", Storage.bandwidth), given.get("lat", Storage.latency_s))

"""The options behind a specification's commas: how each is read and written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from labkit.errors import DataError, PlatformError
from labkit.local.costs import find_calibration
from labkit.machines import models
from labkit.machines import quantities as units
from labkit.machines.mapping import named_mapping

__all__ = [
    "BANDWIDTH",
    "OPTIONS",
    "SHARINGS",
    "TIME",
    "Misplaced",
    "Option",
    "choice",
    "one_of",
    "parse_count",
    "parse_counts",
    "parse_mapping",
    "parse_seed",
]

SHARINGS = ("splitduplex", "shared", "fatpipe")


class Misplaced(PlatformError):
    """A part of a specification that cannot be read, and where it begins."""

    def __init__(self, offset: int, why: str) -> None:
        super().__init__(why)
        self.offset = offset


class Option(NamedTuple):
    """How an option's value is read and written, and what a topology lacks that does not take it."""

    read: Callable[[str], Any]
    write: Callable[[Any], str] = str
    lacks: str = ""


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Hand a value back that is allowed."""
    if value not in allowed:
        raise PlatformError(
            f"{name}={value!r} is not known; allowed: {', '.join(allowed)}", code="unknown-name"
        )
    return value


def choice(name: str, allowed: tuple[str, ...], lacks: str = "") -> Option:
    """Make an option with one of several values."""
    return Option(lambda text: one_of(name, text, allowed), str, lacks)


def parse_count(text: str) -> int:
    """Read a whole number from 1 on, of at most 9 digits."""
    digits = text.lstrip("0")
    if not (text.isascii() and text.isdigit()) or not digits:
        raise PlatformError(
            f"{text!r} is not a count; write a whole number from 1 on", code="malformed-value"
        )
    if len(digits) > 9:
        raise PlatformError(
            f"a count of {len(digits)} digits is too large; write at most 9", code="out-of-range"
        )
    return int(digits)


def parse_counts(text: str, offset: int = 0) -> tuple[int, ...]:
    """Read counts with an x between them, ``8x8x4``."""
    counts = []
    for part in text.split("x"):
        try:
            counts.append(parse_count(part))
        except PlatformError as error:
            raise Misplaced(offset, str(error)) from None
        offset += len(part) + 1
    return tuple(counts)


def parse_seed(text: str) -> int:
    """Read a seed: a whole number from 0 on, below 2^63."""
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 2**63):
        raise PlatformError(
            f"{text!r} is not a seed; write a whole number from 0 on, below 2^63", code="malformed-value"
        )
    return int(text)


def parse_mapping(text: str) -> str:
    """Read a mapping that needs no file."""
    named = named_mapping(text)
    if named is None:
        raise PlatformError(
            f"mapping={text!r} is not known; allowed: block, cyclic, random, random:SEED, "
            "block:RANKS_PER_HOST, fragmented, fragmented:SEED",
            code="unknown-name",
        )
    return str(named)


BANDWIDTH = Option(units.parse_bandwidth, units.format_bandwidth)
TIME = Option(units.parse_time, units.format_time)


def _model(text: str) -> str:
    """Hand back the name or the file of a model that can be used."""
    models.get(text)
    return text


def _calibration(text: str) -> str:
    """Hand back the name or the file of node-local costs that can be read."""
    try:
        find_calibration(text)
    except DataError as error:
        raise PlatformError(f"calibration={text!r}: {error}", code=error.code) from None
    return text


#: What every topology takes, in the order in which a specification writes it.
OPTIONS: dict[str, Option] = {
    "bw": BANDWIDTH,
    "lat": TIME,
    "speed": Option(units.parse_speed, units.format_speed),
    "cores": Option(parse_count),
    "sharing": choice("sharing", SHARINGS),
    "limiter": BANDWIDTH,
    "loopback_bw": BANDWIDTH,
    "loopback_lat": TIME,
    "mapping": Option(parse_mapping),
    "model": Option(_model),
    "calibration": Option(_calibration),
}

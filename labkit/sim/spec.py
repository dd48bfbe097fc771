"""Platform specifications: ``star:64,bw=1.25GBps,lat=1us`` to a checked description and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from labkit.errors import PlatformError
from labkit.sim import models, units

__all__ = ["KINDS", "LATER_KINDS", "StarSpec", "parse_spec"]

#: Topologies a specification may name.
KINDS = ("star",)
#: Topologies with a reserved name that this version does not build.
LATER_KINDS = ("torus", "fattree", "dragonfly")
SHARINGS = ("splitduplex", "shared", "fatpipe")
BACKBONE_SHARINGS = ("shared", "fatpipe")


@dataclass(frozen=True)
class StarSpec:
    """A star: every host hangs on one switch by its own link (SimGrid's flat cluster).

    Attributes
    ----------
    hosts : int or None
        How many; None grows with the ranks of a run.
    bw, lat : float
        Bandwidth (bytes/s) and latency (s) of a host's link, per direction unless sharing is "shared".
    speed : float
        Flop/s of one core.
    cores : int
        Ranks a host may hold.
    sharing : str
        "splitduplex" (an up and a down link), "shared" (one link for both directions) or "fatpipe"
        (one link that never fills: each flow alone is bounded by it).
    bb_bw, bb_lat, bb_sharing
        The backbone that every message crosses; None: no backbone.
    limiter : float or None
        Bytes/s that all messages to and from one host share, or None.
    loopback_bw, loopback_lat
        The link of a message between two ranks of one host; None: it goes up and down.
    model : str
        Name of the network model of a run that names none itself.
    """

    hosts: int | None = None
    bw: float = 1.25e9
    lat: float = 1e-6
    speed: float = 1e9
    cores: int = 1
    sharing: str = "splitduplex"
    bb_bw: float | None = None
    bb_lat: float | None = None
    bb_sharing: str | None = None
    limiter: float | None = None
    loopback_bw: float | None = None
    loopback_lat: float | None = None
    model: str = models.DEFAULT

    def __post_init__(self) -> None:
        """Refuse what no star can be, whoever built it."""
        for name, partner in (("bb_lat", "bb_bw"), ("bb_sharing", "bb_bw"), ("loopback_lat", "loopback_bw")):
            if getattr(self, name) is not None and getattr(self, partner) is None:
                raise PlatformError(
                    f"star has {name} but no {partner}; give {partner}=..., or leave {name} out"
                )
        for name in ("hosts", "cores"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise PlatformError(f"star needs {name} >= 1, got {count}")
        for name in ("bw", "speed", "bb_bw", "limiter", "loopback_bw"):
            rate = getattr(self, name)
            if rate is not None and not 0 < rate < float("inf"):
                raise PlatformError(f"star needs {name} > 0 and finite, got {rate}")
        for name in ("lat", "bb_lat", "loopback_lat"):
            delay = getattr(self, name)
            if delay is not None and not 0 <= delay < float("inf"):
                raise PlatformError(f"star needs {name} >= 0 and finite, got {delay}")
        _one_of("sharing", self.sharing, SHARINGS)
        if self.bb_sharing is not None:
            _one_of("bb_sharing", self.bb_sharing, BACKBONE_SHARINGS)
        models.get(self.model)

    def __str__(self) -> str:
        """The specification that reads back as this star; options at their default are left out."""
        head = "star" if self.hosts is None else f"star:{self.hosts}"
        options = [
            f"{f.name}={_OPTIONS[f.name][1](getattr(self, f.name))}"
            for f in fields(self)
            if f.name != "hosts" and getattr(self, f.name) != f.default
        ]
        return ",".join([head, *options])


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise PlatformError(f"{name}={value!r} is not known; allowed: {', '.join(allowed)}")
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise PlatformError(f"{text!r} is not a count; write a whole number from 1 on")
    return int(text)


_Reader = Callable[[str], Any]
_Writer = Callable[[Any], str]
#: option -> how to read it, how to write it, an example
_OPTIONS: dict[str, tuple[_Reader, _Writer, str]] = {
    "bw": (units.parse_bandwidth, units.format_bandwidth, "1.25GBps"),
    "lat": (units.parse_time, units.format_time, "1us"),
    "speed": (units.parse_speed, units.format_speed, "1Gf"),
    "cores": (_count, str, "4"),
    "sharing": (lambda text: _one_of("sharing", text, SHARINGS), str, "splitduplex"),
    "bb_bw": (units.parse_bandwidth, units.format_bandwidth, "10GBps"),
    "bb_lat": (units.parse_time, units.format_time, "1us"),
    "bb_sharing": (lambda text: _one_of("bb_sharing", text, BACKBONE_SHARINGS), str, "shared"),
    "limiter": (units.parse_bandwidth, units.format_bandwidth, "1.875GBps"),
    "loopback_bw": (units.parse_bandwidth, units.format_bandwidth, "10GBps"),
    "loopback_lat": (units.parse_time, units.format_time, "100ns"),
    "model": (lambda text: models.get(text).name, str, "lab"),
}


def _refuse(spec: str, position: int, why: str) -> PlatformError:
    """Point at the place: the text, a caret under it, and what is wrong."""
    return PlatformError(
        f"platform {spec!r}, at character {position + 1}: {why}\n    {spec}\n    {' ' * position}^"
    )


def _kind_and_size(spec: str, head: str) -> int | None:
    kind, colon, size = head.partition(":")
    if kind in LATER_KINDS:
        raise _refuse(spec, 0, f"{kind!r} is not built in this version; allowed: star or star:HOSTS")
    if kind not in KINDS:
        raise _refuse(
            spec,
            0,
            f"{kind!r} is neither a topology nor a file; allowed: star or star:HOSTS with options behind "
            f"commas, for example star:64,bw=1.25GBps,lat=1us",
        )
    if not colon:
        return None
    try:
        return _count(size)
    except PlatformError as error:
        raise _refuse(
            spec, len(kind) + 1, f"number of hosts: {error}; leave ':' out to let it grow"
        ) from None


def parse_spec(spec: str) -> StarSpec:
    """Read a platform specification.

    Parameters
    ----------
    spec : str
        ``star`` or ``star:HOSTS``, then options behind commas: bw, lat, speed, cores, sharing, bb_bw, bb_lat,
        bb_sharing, limiter, loopback_bw, loopback_lat, model.

    Returns
    -------
    StarSpec

    Raises
    ------
    PlatformError
        Unknown or malformed: the message shows the place and what is allowed there.

    Examples
    --------
    >>> parse_spec("star:64,lat=24us,bw=1Gbps").bw
    125000000.0
    """
    if not isinstance(spec, str):
        raise PlatformError(f"a platform specification is text such as 'star:64', got {type(spec).__name__}")
    parts = spec.split(",")
    hosts = _kind_and_size(spec, parts[0])
    values: dict[str, Any] = {}
    position = len(parts[0]) + 1
    for part in parts[1:]:
        name, equals, text = part.partition("=")
        if not equals or name not in _OPTIONS:
            why = "an option is NAME=VALUE" if not equals else f"option {name!r} is not known"
            raise _refuse(spec, position, f"{why}; allowed: {', '.join(_OPTIONS)}")
        if name in values:
            raise _refuse(spec, position, f"option {name!r} is given twice")
        try:
            values[name] = _OPTIONS[name][0](text)
        except PlatformError as error:
            raise _refuse(spec, position + len(name) + 1, str(error)) from None
        position += len(part) + 1
    try:
        return StarSpec(hosts=hosts, **values)
    except PlatformError as error:
        raise _refuse(spec, 0, str(error)) from None

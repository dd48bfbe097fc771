"""The parts of a zone: hosts, links, routes and whole clusters, as they were written down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from labkit.errors import PlatformError
from labkit.platform.spec import ClusterSpec

__all__ = ["ROUTINGS", "Cluster", "Host", "Link", "Props", "Route", "refuse"]

#: How a zone may join what is in it.
ROUTINGS = ("full", "floyd", "dijkstra", "star", "none")
#: Properties of an element: read, kept and written, never used in a simulation.
Props = tuple[tuple[str, str], ...]


def refuse(place: str, why: str) -> PlatformError:
    """Make the error of one element: where it stands, when that is known, and what is wrong."""
    return PlatformError(f"{place}: {why}" if place else why)


@dataclass(frozen=True, slots=True)
class Host:
    """A host, or with speed None a router.

    Attributes
    ----------
    name : str
    speed : float or None
        Flop/s of one core.
    cores : int
    place : str
        Where it was written down, for messages.
    """

    name: str
    speed: float | None = None
    cores: int = 1
    place: str = field(default="", compare=False)
    props: Props = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A link, or with sharing "splitduplex" a pair of them, one per direction.

    Attributes
    ----------
    name : str
    bw, lat : float
        Bytes/s and seconds.
    sharing : str
        "shared", "splitduplex" or "fatpipe".
    """

    name: str
    bw: float
    lat: float = 0.0
    sharing: str = "shared"
    place: str = field(default="", compare=False)
    props: Props = ()


@dataclass(frozen=True, slots=True)
class Route:
    """Links from one point of a zone to another.

    Attributes
    ----------
    src, dst : str
        Names of hosts or routers, or of zones; "" is the middle of a star.
    links : tuple of (str, str)
        Each link and its direction: "up" or "down" of a split-duplex link, else "".
    symmetrical : bool
        Whether the way back is the same, backwards, in the other directions.
    gw_src, gw_dst : str
        The gateways of zones; "" elsewhere.
    is_bypass : bool
        Whether it replaces what the zone's routing finds for these ends; of one direction only.
    """

    src: str
    dst: str
    links: tuple[tuple[str, str], ...]
    symmetrical: bool = True
    gw_src: str = ""
    gw_dst: str = ""
    place: str = field(default="", compare=False)
    is_bypass: bool = False

    def __str__(self) -> str:
        """Name it for messages."""
        ends = [
            f"{end}@{gw}" if gw else end for end, gw in ((self.src, self.gw_src), (self.dst, self.gw_dst))
        ]
        word = "bypass" if self.is_bypass else "route"
        return f"{word} from {ends[0] or 'the middle'} to {ends[1] or 'the middle'}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A whole cluster as a zone, with names for its hosts.

    Attributes
    ----------
    name : str
        Of the zone.
    spec : ClusterSpec
        A sized one.
    prefix, suffix : str
        What stands round a host's number.
    radical : tuple of (int, int)
        The numbers, as ranges with both ends.
    router : str
        Its gateway.
    """

    name: str
    spec: ClusterSpec
    prefix: str
    suffix: str
    radical: tuple[tuple[int, int], ...]
    router: str
    place: str = field(default="", compare=False)
    props: Props = ()

    def numbers(self) -> Iterator[int]:
        """Go through the hosts' numbers."""
        for first, last in self.radical:
            yield from range(first, last + 1)

    def host_name(self, index: int) -> str:
        """Name one host, counted from 0 on."""
        for first, last in self.radical:
            if index <= last - first:
                return f"{self.prefix}{first + index}{self.suffix}"
            index -= last - first + 1
        raise IndexError(index)

    def index(self, name: str) -> int | None:
        """Find a host by its name."""
        end = len(name) - len(self.suffix)
        digits = name[len(self.prefix) : end]
        if not (name.startswith(self.prefix) and name.endswith(self.suffix)):
            return None
        if not (digits.isascii() and digits.isdigit()) or digits != str(int(digits[:12])):
            return None
        number, before = int(digits), 0
        for first, last in self.radical:
            if first <= number <= last:
                return before + number - first
            before += last - first + 1
        return None

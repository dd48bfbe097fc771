"""Machines made in Python: a zone contains hosts and their routes, or further zones and theirs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from labkit.errors import PlatformError
from labkit.machines import models
from labkit.machines import quantities as units
from labkit.machines.spec import MAX_HOSTS, MAX_LINKS, ClusterSpec, parse_spec
from labkit.machines.spec.options import SHARINGS, one_of

__all__ = ["ClusterZone", "Host", "Link", "Profile", "Route", "Zone", "read_profile", "refuse"]


Quantity = str | float


class Zone:
    """A part of a machine: hosts, routers, links and routes, or zones, clusters and the routes between them.

    Names are of the whole machine: hosts, routers and zones share one space, links another; a link may be
    used in any zone. What a zone cannot be is refused when `labkit.platform` puts the machine together.

    Parameters
    ----------
    name : str
        Its name.
    routing : str
        ``full`` (a route for every pair), ``floyd`` or ``dijkstra`` (a message takes the routes with the
        fewest links; the two differ only in which of equally short ways they take), ``star`` (each point
        has its way to the middle), ``none``.
    place : str
        Line of a file where it stands, for messages.
    props : mapping of str to str, optional
        SimGrid's ``<prop>`` entries, kept unchanged.

    Examples
    --------
    >>> import labkit as lk
    >>> zone = lk.Zone("pair", routing="floyd")
    >>> for name in ("left", "right"):
    ...     _ = zone.host(name, speed="2Gf")
    >>> _ = zone.link("cable", bw="10Gbps", lat="1us", sharing="splitduplex")
    >>> zone.route("left", "right", ["cable"])
    >>> lk.platform(zone).build(2).route(0, 1)
    (['cable up'], 1e-06)
    """

    def __init__(
        self, name: str = "all", routing: str = "full", *, place: str = "", props: Props = ()
    ) -> None:
        self.name = name
        self.routing = one_of("routing", routing.lower(), ROUTINGS)
        self.place = place
        self.props = props
        #: hosts, routers, zones and clusters, in the order in which they were added
        self.members: list[Host | Zone | ClusterZone] = []
        self.links: list[Link] = []
        self.routes: list[Route] = []

    def __repr__(self) -> str:
        return f"Zone({self.name!r}, routing={self.routing!r}, {len(self.members)} members)"

    def host(
        self,
        name: str,
        speed: Quantity = 1e9,
        cores: int = 1,
        *,
        speed_profile: str | Profile | None = None,
        place: str = "",
        props: Props = (),
    ) -> Host:
        r"""Add a host.

        Parameters
        ----------
        name : str
            Once in the whole machine.
        speed : str or float
            ``2Gf``, or flop/s; of one core.
        cores : int
            Ranks it may hold.
        speed_profile : str or Profile, optional
            Shares of the speed, with the times from which they hold: ``"0 1\n10 0.5"``, see `Profile`.
        place : str
            Line of a file where it stands, for messages.
        props : mapping of str to str, optional
            SimGrid's ``<prop>`` entries, kept unchanged.

        Returns
        -------
        Host
            For routes.
        """
        rate = units.parse_speed(speed) if isinstance(speed, str) else float(speed)
        if not 0 < rate < float("inf"):
            raise refuse(place, f"host {name!r} needs a finite speed above 0, got {speed!r}")
        if isinstance(cores, bool) or not isinstance(cores, int) or not 1 <= cores < 2**31:
            raise refuse(place, f"host {name!r} needs a whole number of cores from 1 on, got {cores!r}")
        host = Host(name, rate, cores, place, props, read_profile(speed_profile, place))
        self.members.append(host)
        return host

    def router(self, name: str, *, place: str = "") -> Host:
        """Add a switch: a point that routes pass and no rank runs on.

        Parameters
        ----------
        name : str
            Once in the whole machine.
        place : str
            Line of a file where it stands, for messages.

        Returns
        -------
        Host
            For routes.
        """
        router = Host(name, place=place)
        self.members.append(router)
        return router

    def link(
        self,
        name: str,
        bw: Quantity,
        lat: Quantity = 0.0,
        sharing: str = "shared",
        *,
        bw_profile: str | Profile | None = None,
        lat_profile: str | Profile | None = None,
        place: str = "",
        props: Props = (),
    ) -> Link:
        r"""Add a link, which routes of any zone may cross.

        Parameters
        ----------
        name : str
            Once in the whole machine.
        bw, lat : str or float
            ``10Gbps`` or bytes/s; ``1us`` or seconds.
        sharing : str
            ``shared`` (the flows of both directions share it), ``splitduplex`` (a link for each direction:
            routes say ``(name, "up")`` or ``(name, "down")``) or ``fatpipe`` (it never fills).
        bw_profile, lat_profile : str or Profile, optional
            Bandwidths (bytes/s) and latencies (s), with the times from which they hold: ``"0 1e9\n10 5e8"``,
            see `Profile`.
        place : str
            Line of a file where it stands, for messages.
        props : mapping of str to str, optional
            SimGrid's ``<prop>`` entries, kept unchanged.

        Returns
        -------
        Link
            For routes.
        """
        rate = units.parse_bandwidth(bw) if isinstance(bw, str) else float(bw)
        delay = units.parse_time(lat) if isinstance(lat, str) else float(lat)
        if not 0 < rate < float("inf") or not 0 <= delay < float("inf"):
            raise refuse(place, f"link {name!r} needs a finite bandwidth above 0 and a latency from 0 on")
        profiles = read_profile(bw_profile, place), read_profile(lat_profile, place)
        if profiles[0] is not None and any(value <= 0 for _, value in profiles[0].steps):
            raise refuse(place, f"link {name!r} needs bandwidths above 0, also in its profile")
        link = Link(name, rate, delay, one_of("sharing", sharing.lower(), SHARINGS), place, props, *profiles)
        self.links.append(link)
        return link

    def route(
        self,
        src: str,
        dst: str,
        links: Iterable[str | Sequence[str]],
        *,
        symmetrical: bool = True,
        gw_src: str = "",
        gw_dst: str = "",
        bypass: bool = False,
        place: str = "",
    ) -> None:
        """Add the links between two points of the zone.

        Parameters
        ----------
        src, dst : str
            Hosts or routers of this zone, or zones in it.
        links : iterable
            Names of links, in order; ``(name, "up")`` or ``(name, "down")`` of a split-duplex one, whose
            bare name means up.
        symmetrical : bool
            Whether the way back is the same, backwards, in the other directions.
        gw_src, gw_dst : str
            Of zones: the host or router inside, where the route begins or ends.
        bypass : bool
            Whether it replaces what the zone's routing finds from `src` to `dst`, in this direction only.
        place : str
            Line of a file where it stands, for messages.
        """
        way = tuple((one, "") if isinstance(one, str) else (one[0], one[1].lower()) for one in links)
        for name, direction in way:
            if direction not in ("", "up", "down"):
                raise refuse(place, f"link {name!r} has the direction {direction!r}; allowed: up, down")
        is_both = symmetrical and not bypass
        self.routes.append(Route(src, dst, way, is_both, gw_src, gw_dst, place, bypass))

    def zone(self, name: str, routing: str = "full", *, place: str = "") -> Zone:
        """Add a zone inside, and hand it back to be filled.

        Parameters
        ----------
        name : str
            Once in the whole machine.
        routing : str
            How routes inside are found, as in `Zone`.
        place : str
            Line of a file where it stands, for messages.

        Returns
        -------
        Zone
            Empty.
        """
        inner = Zone(name, routing, place=place)
        self.members.append(inner)
        return inner

    def cluster(
        self,
        name: str,
        spec: str | ClusterSpec,
        *,
        prefix: str | None = None,
        suffix: str = "",
        radical: Sequence[tuple[int, int]] | None = None,
        router: str | None = None,
        place: str = "",
        props: Props = (),
    ) -> ClusterZone:
        """Add a whole cluster as a zone.

        Parameters
        ----------
        name : str
            Of the zone.
        spec : str or ClusterSpec
            ``star:64,bw=1.25GBps``, ``torus:8x8x8``, ...: of any topology, with its size.
        prefix, suffix : str, optional
            What stands round a host's number; default: ``NAME-`` and nothing.
        radical : sequence of (int, int), optional
            The hosts' numbers, as ranges with both ends; default: from 0 on.
        router : str, optional
            Name of its gateway, where routes of the zone around begin or end; default: SimGrid's,
            prefix, name, ``_router``, suffix.
        place : str
            Line of a file where it stands, for messages.
        props : mapping of str to str, optional
            SimGrid's ``<prop>`` entries, kept unchanged.

        Returns
        -------
        Cluster
            For routes.
        """
        made = parse_spec(spec) if isinstance(spec, str) else spec
        if made.hosts is None:
            raise refuse(place, f"cluster {name!r} needs a size, such as {made.KIND}:64; got {made}")
        if made.SIMGRID is None:
            raise refuse(place, f"a {made.KIND} joins its hosts alone: it has no gateway, so it is no zone")
        prefix = f"{name}-" if prefix is None else prefix
        ranges = ((0, made.hosts - 1),) if radical is None else tuple((int(a), int(b)) for a, b in radical)
        count = sum(b - a + 1 for a, b in ranges)
        if any(a < 0 or b < a for a, b in ranges) or count != made.hosts:
            raise refuse(place, f"cluster {name!r} has {made.hosts} hosts, its radical numbers {count}")
        router = router or f"{prefix}{name}_router{suffix}"
        # The network model and the mapping are the whole machine's.
        made = replace(made, model=models.DEFAULT, mapping=None)
        cluster = ClusterZone(name, made, prefix, suffix, ranges, router, place, props)
        self.members.append(cluster)
        return cluster

    def walk(self) -> Iterable[Zone]:
        """Go through this zone and all zones inside, in the order in which they were added.

        Yields
        ------
        Zone
            This one first.
        """
        stack = [self]
        seen: set[int] = set()
        while stack:
            zone = stack.pop()
            if id(zone) in seen:
                raise refuse(zone.place, f"zone {zone.name!r} stands in the machine twice, or in itself")
            seen.add(id(zone))
            yield zone
            stack.extend(reversed([inner for inner in zone.members if isinstance(inner, Zone)]))

    def check_size(self) -> None:
        """Refuse a machine that no memory holds, before anything is built.

        Raises
        ------
        PlatformError
            More than 2^20 hosts or 2^24 links.
        """
        hosts = links = 0
        for zone in self.walk():
            links += len(zone.links)
            for one in zone.members:
                hosts += (one.spec.hosts or 0) if isinstance(one, ClusterZone) else not isinstance(one, Zone)
        if hosts > MAX_HOSTS:
            raise PlatformError(
                f"zone {self.name!r} has {hosts:,} hosts; at most 2^20 are allowed", code="out-of-range"
            )
        if links > MAX_LINKS:
            raise PlatformError(
                f"zone {self.name!r} has {links:,} links; at most 2^24 are allowed", code="out-of-range"
            )


# The parts of a zone: hosts, links, routes and whole clusters, as they were written down.


#: How a zone may join what is in it.
ROUTINGS = ("full", "floyd", "dijkstra", "star", "none")
#: Properties of an element: read, kept and written, never used in a simulation.
Props = tuple[tuple[str, str], ...]


def refuse(place: str, why: str, code: str = "") -> PlatformError:
    """Make the error of one element: where it stands, when that is known, and what is wrong."""
    code = code or ("malformed-line" if place else "invalid-value")
    return PlatformError(f"{place}: {why}" if place else why, code=code)


@dataclass(frozen=True, slots=True)
class Profile:
    r"""What changes with time by itself: a speed, a bandwidth, a latency.

    Attributes
    ----------
    steps : tuple of (float, float)
        Times (s), rising from 0 on, and the value that holds from then on.
    period_s : float
        All steps come again after this time, in seconds; 0: they come once.

    Examples
    --------
    >>> read_profile("PERIODICITY 12\n4 0.5\n8 1")
    Profile(steps=((4.0, 0.5), (8.0, 1.0)), period_s=12.0)
    """

    steps: tuple[tuple[float, float], ...]
    period_s: float = 0.0

    def __post_init__(self) -> None:
        times = [at for at, _ in self.steps]
        if not times or times[0] < 0 or any(b <= a for a, b in itertools.pairwise(times)):
            raise refuse("", "a profile needs steps at times that rise, from 0 on")
        if not all(at < math.inf and 0 <= value < math.inf for at, value in self.steps):
            raise refuse("", "the times and values of a profile must be finite and at least 0")
        if not 0 <= self.period_s < math.inf or 0 < self.period_s <= times[-1] - times[0]:
            raise refuse("", "the period of a profile must be longer than its steps, or 0")
        if 0 < self.period_s < 1e-6:
            raise refuse("", "the period of a profile must be at least a microsecond, or 0")

    def text(self) -> str:
        """Write the steps as SimGrid reads them."""
        return "".join(f"{at!r} {value!r}\n" for at, value in self.steps)


def read_profile(given: str | Profile | None, place: str = "", period_s: float = 0.0) -> Profile | None:
    """Read SimGrid's text of a profile: a time and a value on each line.

    PERIODICITY is the time from a step to when it comes again; LOOPAFTER that from the last step to when the
    times begin at 0 again.
    """
    if not isinstance(given, str):
        return given
    steps: list[tuple[float, float]] = []
    loops_after_s = 0.0
    for line in given.splitlines():
        words = line.split()
        if not words or words[0][0] in "#%":
            continue
        try:
            if words[0] == "PERIODICITY":
                (period_s,) = map(float, words[1:])
            elif words[0] == "LOOPAFTER":
                (loops_after_s,) = map(float, words[1:])
            else:
                at, value = map(float, words)
                steps.append((at, value))
        except ValueError:
            raise refuse(
                place,
                f"a line of a profile has a time and a value, or PERIODICITY and seconds; got {line[:40]!r}",
            ) from None
    if loops_after_s > 0 and steps:
        period_s = steps[-1][0] + loops_after_s
    try:
        return Profile(tuple(steps), max(period_s, 0.0))
    except PlatformError as error:
        raise refuse(place, str(error)) from None


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
    speed_profile: Profile | None = None


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
    bw_profile: Profile | None = None
    lat_profile: Profile | None = None


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
class ClusterZone:
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

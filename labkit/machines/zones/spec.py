"""A machine of zones as a description that a `Platform` builds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from labkit.errors import PlatformError, nearest
from labkit.machines import models
from labkit.machines import quantities as units
from labkit.machines.drawing import Layout, Point
from labkit.machines.spec import MachineSpec
from labkit.machines.xml.elements import (
    MODEL_PROPERTY,
    attributes_text,
    cluster_element,
    digits_of,
    element,
    props_text,
    whole_file,
)
from labkit.machines.zones.zone import ClusterZone, Host, Link, Profile, Route, Zone, refuse

if TYPE_CHECKING:
    from labkit import _kernels

__all__ = ["MOST_POINTS", "ZonesSpec", "zones_xml"]


# SimGrid's platform XML of a machine of zones.

_ROUTINGS = {"full": "Full", "floyd": "Floyd", "dijkstra": "Dijkstra", "star": "Star", "none": "None"}


def zones_xml(root: Zone, model: str = models.DEFAULT) -> str:
    """Write a machine of zones (version 4.1)."""
    lines: list[str] = []
    pairs = {link.name for zone in root.walk() for link in zone.links if link.sharing == "splitduplex"}
    _write_zone(root, "  ", lines, pairs, () if model == models.DEFAULT else ((MODEL_PROPERTY, model),))
    for zone in root.walk():
        for one in zone.members:
            if isinstance(one, Host):
                lines.append(_profile("SPEED", one.name, one.speed_profile))
        for link in zone.links:
            ends = [f"{link.name}_UP", f"{link.name}_DOWN"] if link.sharing == "splitduplex" else [link.name]
            for end in ends:
                lines.append(_profile("BANDWIDTH", end, link.bw_profile))
                lines.append(_profile("LATENCY", end, link.lat_profile))
    return whole_file("".join(lines))


def _profile(kind: str, name: str, profile: Profile | None) -> str:
    if profile is None:
        return ""
    period = digits_of(profile.period_s) if profile.period_s else "-1.0"  # SimGrid's for: once
    attributes = {"id": f"{kind} of {name}", "periodicity": period}
    connected = {"trace": attributes["id"], "element": name, "kind": kind}
    return (
        f"  <trace {attributes_text(attributes)}>\n{profile.text()}  </trace>\n"
        f"  <trace_connect {attributes_text(connected)}/>\n"
    )


def _write_zone(
    zone: Zone, indent: str, lines: list[str], pairs: set[str], more: tuple[tuple[str, str], ...] = ()
) -> None:
    head = attributes_text({"id": zone.name, "routing": _ROUTINGS[zone.routing]})
    lines.append(f"{indent}<zone {head}>\n")
    inside = indent + "  "
    lines.append(props_text((*zone.props, *more), inside))
    for one in zone.members:
        if isinstance(one, Zone):
            _write_zone(one, inside, lines, pairs)
        elif isinstance(one, ClusterZone):
            spec, names = one.spec, (one.name, one.prefix, one.suffix)
            what = cluster_element(
                spec.xml_attributes(), spec.model, *names, one.radical, one.router, one.props, inside
            )
            lines.append(what)
        else:
            lines.append(_host(one, inside))
    lines.extend(_link(link, inside) for link in zone.links)
    inner = {one.name for one in zone.members if not isinstance(one, Host)}
    lines.extend(_route(route, inside, inner, pairs) for route in zone.routes)
    lines.append(f"{indent}</zone>\n")


def _host(host: Host, indent: str) -> str:
    if host.speed is None:
        return element("router", {"id": host.name}, indent)
    attributes = {"id": host.name, "speed": f"{digits_of(host.speed)}f"}
    if host.cores > 1:
        attributes["core"] = str(host.cores)
    return element("host", attributes, indent, host.props)


def _link(link: Link, indent: str) -> str:
    attributes = {
        "id": link.name,
        "bandwidth": f"{digits_of(link.bw)}Bps",
        "latency": f"{digits_of(link.lat)}s",
    }
    if link.sharing != "shared":
        attributes["sharing_policy"] = link.sharing.upper()
    return element("link", attributes, indent, link.props)


def _route(route: Route, indent: str, zones: set[str], pairs: set[str]) -> str:
    word = "zoneRoute" if {route.src, route.dst} & zones else "route"
    attributes = {"src": route.src, "dst": route.dst}
    if word == "zoneRoute":
        attributes |= {"gw_src": route.gw_src, "gw_dst": route.gw_dst}
    if route.is_bypass:
        word = "bypassZoneRoute" if word == "zoneRoute" else "bypassRoute"
    elif not route.symmetrical:
        attributes["symmetrical"] = "NO"
    links = ""
    for name, given in route.links:
        way = given or ("up" if name in pairs else "")  # the bare name of a pair means up
        link = {"id": name, "direction": way.upper()} if way else {"id": name}
        links += f"{indent}  <link_ctn {attributes_text(link)}/>\n"
    return f"{indent}<{word} {attributes_text(attributes)}>\n{links}{indent}</{word}>\n"


# Putting a machine of zones together for the engine: names become numbers, and what cannot be is refused.

#: Up to this number of hosts every route is tried; of more, those of some hosts with their
#: neighbor, the first and the last host.
_ALL_PAIRS, _SOME_HOSTS = 128, 4096


class Assembly:
    """A machine of zones, as the engine numbers it.

    Parameters
    ----------
    root : Zone
        The whole machine.

    Attributes
    ----------
    machine : labkit._kernels.Platform
        The compiled machine, without ranks.
    host_names : list of str or ClusterZone
        In the order of their numbers; a cluster stands for all its hosts.
    clusters : list of (ClusterZone, int)
        The clusters, and the point of the first host of each.
    link_names : dict
        Name of a link to its number, or its two (up, down).
    profiles : dict
        What changes with time: of "speed", "bandwidth" and "latency" the number of a host or link, the steps
        and the period.
    gap : PlatformError or None
        The first pair of hosts that has no route, as an error; None where all have one.

    Raises
    ------
    PlatformError
        A name that is not there or there twice, a route that cannot be.
    """

    def __init__(self, root: Zone) -> None:
        from labkit import _kernels

        root.check_size()
        self._zones = _kernels.Zones()
        self._points: dict[str, int] = {}
        self._inner: dict[str, tuple[Zone | ClusterZone, Zone]] = {}
        self._zone_numbers: dict[str, int] = {}
        self.clusters: list[tuple[ClusterZone, int]] = []
        self.link_names: dict[str, tuple[int, ...]] = {}
        self.host_names: list[str | ClusterZone] = []
        self._hosts = 0
        self.profiles: dict[str, list[tuple[int, list[tuple[float, float]], float]]] = {
            "speed": [],
            "bandwidth": [],
            "latency": [],
        }
        self._taken: dict[str, str] = {}
        self._add_zone(root, None, -1)
        self._name_cluster_hosts()
        for zone in root.walk():
            for link in zone.links:
                self._add_link(link)
        for zone in root.walk():
            self._add_routes(zone)
        if not self.host_names:
            raise refuse(root.place, f"zone {root.name!r} has no hosts; a machine needs at least one")
        try:
            self.machine = self._zones.build([], *self.profiles.values())
        except ValueError as error:
            raise refuse(root.place, str(error)) from None
        self._places = {zone.name: zone.place for zone in root.walk()}
        self._root = root.place
        #: why hosts without a way to each other have none; None where every pair has one
        self.gap = self._missing(range(self.machine.host_count))

    # --- what there is ------------------------------------------------------------------------------

    def _take(self, name: str, place: str) -> None:
        if not name or not name.isprintable():
            raise refuse(
                place, f"a host, router or zone needs a name without control characters, got {name!r}"
            )
        if name in self._taken:
            first = f" ({self._taken[name]})" if self._taken[name] else ""
            raise refuse(
                place,
                f"the name {name!r} is taken already{first}; hosts, routers and zones share names",
                "malformed-line" if place else "name-taken",
            )
        self._taken[name] = place

    def _add_zone(self, zone: Zone, around: Zone | None, parent: int) -> None:
        """Add a zone and all in it, in the order of the file: shortest paths break ties by it."""
        self._take(zone.name, zone.place)
        try:
            number = self._zones.zone(parent, zone.routing, zone.name)
        except ValueError as error:
            raise refuse(zone.place, str(error)) from None
        self._zone_numbers[zone.name] = number
        if around is not None:
            self._inner[zone.name] = (zone, around)
        for one in zone.members:
            if isinstance(one, Host) != isinstance(zone.members[0], Host):
                raise refuse(
                    one.place or zone.place,
                    f"zone {zone.name!r} contains hosts or routers next to zones or clusters; a zone has one "
                    "or the other: put the hosts into a separate zone",
                )
            if isinstance(one, Zone):
                self._add_zone(one, zone, number)
            elif isinstance(one, ClusterZone):
                self._add_cluster(one, zone, number)
            else:
                self._add_host(one, number)

    def _add_host(self, host: Host, zone: int) -> None:
        self._take(host.name, host.place)
        if host.speed is None:
            self._points[host.name] = self._zones.router(zone, host.name)
        else:
            self._points[host.name] = self._zones.host(zone, host.speed, host.cores, host.name)
            self._note_profile("speed", self._hosts, host.speed_profile)
            self._hosts += 1
            self.host_names.append(host.name)

    def _add_cluster(self, cluster: ClusterZone, around: Zone, number: int) -> None:
        self._take(cluster.name, cluster.place)
        self._take(cluster.router, cluster.place)
        zone, first, router = self._zones.cluster(number, cluster.spec.build([]), cluster.name)
        self._inner[cluster.name] = (cluster, around)
        self._zone_numbers[cluster.name] = zone
        self._points[cluster.router] = router
        self.clusters.append((cluster, first))
        self._hosts += cluster.spec.hosts or 0
        self.host_names.append(cluster)

    def _name_cluster_hosts(self) -> None:
        """Refuse a host of a cluster whose name is taken; only the first owner of each name is kept."""
        taken = set(self._taken)
        for cluster, _ in self.clusters:
            for index in cluster.numbers():
                name = f"{cluster.prefix}{index}{cluster.suffix}"
                if name in taken:
                    raise refuse(
                        cluster.place,
                        f"cluster {cluster.name!r} has a host {name!r}; that name is taken already",
                    )
                taken.add(name)

    def _add_link(self, link: Link) -> None:
        if not link.name or not link.name.isprintable():
            raise refuse(link.place, f"a link needs a name without control characters, got {link.name!r}")
        if link.name in self.link_names:
            raise refuse(link.place, f"a link {link.name!r} is there already")
        is_pair = link.sharing == "splitduplex"
        names = [f"{link.name} up", f"{link.name} down"] if is_pair else [link.name]
        numbers = [self._zones.link(link.bw, link.lat, link.sharing == "fatpipe", name) for name in names]
        self.link_names[link.name] = tuple(numbers)
        for number in numbers:
            self._note_profile("bandwidth", number, link.bw_profile)
            self._note_profile("latency", number, link.lat_profile)

    def _note_profile(self, what: str, number: int, profile: Profile | None) -> None:
        if profile is not None:
            self.profiles[what].append((number, list(profile.steps), profile.period_s))

    # --- routes -------------------------------------------------------------------------------------

    def _add_routes(self, zone: Zone) -> None:
        ended: set[str] = set()
        for route in zone.routes:
            ends = [self._end(zone, route, end) for end in (route.src, route.dst)]
            gates = [
                self._gateway(route, end, gateway)
                for end, gateway in ((route.src, route.gw_src), (route.dst, route.gw_dst))
            ]
            links = [self._link(route, name, way == "down") for name, way in route.links]
            self._add_route(zone, route, ends, gates, links)
            if route.is_bypass:
                continue
            ended |= {route.src, route.dst}
            if route.symmetrical and route.src != route.dst:
                back = [self._link(route, name, way != "down") for name, way in reversed(route.links)]
                self._add_route(zone, route, ends[::-1], gates[::-1], back)
        if zone.routing == "star":
            self._fill_star(zone, ended)

    def _add_route(
        self, zone: Zone, route: Route, ends: list[int], gates: list[int], links: list[int]
    ) -> None:
        add = self._zones.bypass if route.is_bypass else self._zones.route
        try:
            add(self._zone_numbers[zone.name], ends[0], ends[1], links, gates[0], gates[1])
        except ValueError as error:
            backwards = " (backwards: routes are symmetrical unless they say otherwise)"
            way = backwards if ends[0] != self._end(zone, route, route.src) else ""
            raise refuse(route.place, f"{route} in zone {zone.name!r}{way}: {error}") from None

    def _fill_star(self, zone: Zone, ended: set[str]) -> None:
        """A point of a star without a route is at its middle."""
        for one in zone.members:
            if isinstance(one, Host) and one.name not in ended:
                point = self._points[one.name]
                for src, dst in ((point, -1), (-1, point)):
                    self._zones.route(self._zone_numbers[zone.name], src, dst, [])

    def _end(self, zone: Zone, route: Route, name: str) -> int:
        if not name:
            if zone.routing != "star":
                raise refuse(
                    route.place, f"{route}: only a star has a middle; name two points of {zone.name!r}"
                )
            return -1
        if name in self._inner:
            if self._inner[name][1] is not zone:
                raise refuse(route.place, f"{route}: zone {name!r} is not directly in zone {zone.name!r}")
            return int(self._zones.point_of(self._zone_numbers[name]))
        return self._point(route, name)

    def _point(self, route: Route, name: str) -> int:
        if name in self._points:
            return self._points[name]
        for cluster, first in self.clusters:
            index = cluster.index(name)
            if index is not None:
                return first + index
        names = [*self._points, *(f"{c.prefix}{c.radical[0][0]}{c.suffix}" for c, _ in self.clusters)]
        raise refuse(route.place, f"{route}: there is no host or router {name!r}{nearest(name, names)}")

    def _gateway(self, route: Route, end: str, name: str) -> int:
        if end in self._inner:
            if not name:
                raise refuse(
                    route.place, f"{route}: {end!r} is a zone, so the route needs a gateway inside it"
                )
            return self._point(route, name)
        if name:
            raise refuse(route.place, f"{route}: {end!r} is no zone, so it has no gateway; got {name!r}")
        return -1

    def _link(self, route: Route, name: str, is_down: bool) -> int:
        whole, _, way = name.rpartition("_")
        if name not in self.link_names and way in ("UP", "DOWN") and len(self.link_names.get(whole, ())) == 2:
            return self.link_names[whole][way == "DOWN"]  # SimGrid's names of the two
        if name not in self.link_names:
            raise refuse(
                route.place, f"{route}: there is no link {name!r}{nearest(name, list(self.link_names))}"
            )
        numbers = self.link_names[name]
        # Only a pair of links has directions; SimGrid, too, overlooks one that is given for another.
        return numbers[-1] if is_down else numbers[0]

    def check(self, hosts: Sequence[int]) -> None:
        """Refuse to put ranks on hosts that have no way to each other.

        Raises
        ------
        PlatformError
            Two of them have no route.
        """
        if self.gap is not None and (found := self._missing(sorted(set(hosts)))) is not None:
            raise found

    def _missing(self, hosts: Sequence[int]) -> PlatformError | None:
        """Find a pair of hosts without a route."""
        count = len(hosts)
        if count <= _ALL_PAIRS:
            pairs = [(a, b) for a in hosts for b in hosts]
        else:
            some = range(0, count, -(-count // _SOME_HOSTS))
            pairs = [(hosts[i], hosts[j]) for i in some for j in (0, (i + 1) % count, count - 1)]
            pairs += [(b, a) for a, b in pairs]
        for a, b in pairs:
            try:
                self.machine.route(a, b)
            except ValueError as error:
                found = re.search(r"zone '(.*)' has none", str(error))
                place = self._places.get(found[1] if found else "", self._root)
                return refuse(place, str(error), "not-connected")
        return None


class ZonesSpec(MachineSpec):
    """Zones in zones. Put together once, when it is made, so that a machine that cannot be is refused then.

    Parameters
    ----------
    root : Zone
        The whole machine; not to be changed afterwards.
    source : str
        The file it was read from; empty for a machine made in Python.
    model : str
        Name of the network model of a run that names none itself.

    Raises
    ------
    PlatformError
        See `Assembly`.
    """

    KIND: ClassVar[str] = "zones"

    def __init__(self, root: Zone, source: str = "", model: str = models.DEFAULT) -> None:
        self.root = root
        self.source = source
        models.get(model)
        self.model = model
        self.mapping = None
        self.calibration = None
        self._assembly: Assembly | None = Assembly(root)
        # Equal machines are written alike: this is what they are compared by.
        self._text = zones_xml(root)
        hosts = list(self._kinds_of_hosts())
        self.cores = min(cores for cores, _, _ in hosts)
        self.speed = hosts[0][1]

    def _kinds_of_hosts(self) -> Iterator[tuple[int, float, int]]:
        """Cores, speed and number of hosts that are alike."""
        for zone in self.root.walk():
            for one in zone.members:
                if isinstance(one, ClusterZone):
                    yield one.spec.cores, one.spec.speed, one.spec.hosts or 0
                elif isinstance(one, Host) and one.speed is not None:
                    yield one.cores, one.speed, 1

    @property
    def content(self) -> str:
        """The zones as SimGrid's XML, whatever the file is called."""
        return self._text

    @property
    def assembly(self) -> Assembly:
        """The machine as the engine numbers it."""
        if self._assembly is None:
            self._assembly = Assembly(self.root)
        return self._assembly

    def __getstate__(self) -> dict[str, object]:
        """Everything but the compiled machine, which is put together again where it is needed."""
        return {**self.__dict__, "_assembly": None}

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return int(self.assembly.machine.host_count)

    def sized(self, hosts: int) -> ZonesSpec:
        """Return the machine itself: it does not grow."""
        del hosts
        return self

    def build(self, rank_hosts: Sequence[int]) -> _kernels.Platform:
        """Put ranks on the compiled machine.

        Raises
        ------
        PlatformError
            Two of their hosts have no route to each other.
        """
        self.assembly.check(rank_hosts)
        return self.assembly.machine.placed(list(rank_hosts))

    def host_number(self, name: str) -> int | None:
        """Find a host by its name."""
        before = 0
        for one in self.assembly.host_names:
            if isinstance(one, ClusterZone):
                index = one.index(name)
                if index is not None:
                    return before + index
                before += one.spec.hosts or 0
            elif one == name:
                return before
            else:
                before += 1
        return None

    def host_name(self, number: int) -> str:
        """Name a host."""
        before = 0
        for one in self.assembly.host_names:
            count = (one.spec.hosts or 0) if isinstance(one, ClusterZone) else 1
            if number < before + count:
                return one.host_name(number - before) if isinstance(one, ClusterZone) else one
            before += count
        raise IndexError(number)

    def rows(self) -> list[tuple[str, str]]:
        """Zones, hosts and links."""
        zones = list(self.root.walk())
        clusters = [one for zone in zones for one in zone.members if isinstance(one, ClusterZone)]
        routers = sum(isinstance(one, Host) and one.speed is None for z in zones for one in z.members)
        shapes = ", ".join(f"{one.name} ({one.spec.KIND}:{one.spec.size})" for one in clusters[:6])
        routings = sorted({zone.routing for zone in zones})
        rows = [
            ("shape", f"{len(zones)} zone{'s' if len(zones) > 1 else ''} ({', '.join(routings)})"),
            ("hosts", f"{self.hosts:,}"),
        ]
        if clusters:
            more = f" and {len(clusters) - 6} more" if len(clusters) > 6 else ""
            rows.append(("clusters", f"{len(clusters)}: {shapes}{more}"))
        if routers:
            rows.append(("routers", f"{routers:,}"))
        if self.assembly.gap is not None:
            rows.append(("not joined", str(self.assembly.gap)))
        rows.append(("links", f"{self.assembly.machine.link_count - 1:,}, one per direction where split"))
        changing = [
            f"{len(rows)} {what if len(rows) == 1 else what.replace('y', 'ie') + 's'}"
            for what, rows in self.assembly.profiles.items()
            if rows
        ]
        if changing:
            rows.append(("change with time", ", ".join(changing)))
        kinds = sorted({(cores, speed) for cores, speed, _ in self._kinds_of_hosts()})
        said = "; ".join(f"{cores}, {units.format_speed(speed)} each" for cores, speed in kinds[:4])
        rows.append(("cores per host", said + ("; ..." if len(kinds) > 4 else "")))
        return rows

    def lay_out(self) -> Layout:
        """Place the hosts and routers of a zone, or its zones with their hosts around them."""
        return lay_out_zones(self.root, str(self))

    def xml(self) -> str:
        """Write the zones unchanged; hosts keep their names."""
        return zones_xml(self.root, self.model)

    def __str__(self) -> str:
        return self.source or self.root.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZonesSpec) and (self._text, self.model) == (other._text, other.model)

    def __hash__(self) -> int:
        return hash((self._text, self.model))


# The drawing of a machine of zones: a graph by its distances, zones of zones as rings of hosts.


#: Points of the outermost zone, and hosts drawn round one of its zones.
MOST_POINTS, MOST_ROUND = 400, 48


# Joints between the points of a zone: the links of its routes, by their two ends.

Ends = tuple[str, str]


def joints(zone: Zone) -> dict[Ends, tuple[str, ...]]:
    """Return the links of each route of a zone, by its two ends, as the simulator names them.

    The middle of a star is the end "".
    """
    pairs = {link.name for inner in zone.walk() for link in inner.links if link.sharing == "splitduplex"}

    def named(name: str, way: str) -> str:
        return f"{name} {way or 'up'}" if name in pairs else name

    members = {"", *(one.name for one in zone.members)}
    found: dict[Ends, tuple[str, ...]] = {}
    turned = {"": "down", "up": "down", "down": "up"}
    for route in zone.routes:
        if route.src == route.dst or not {route.src, route.dst} <= members:
            continue
        found[route.src, route.dst] = tuple(named(name, way) for name, way in route.links)
        if route.symmetrical:
            back = tuple(named(name, turned[way]) for name, way in reversed(route.links))
            found.setdefault((route.dst, route.src), back)
    return found


def uplinks(names: Iterable[str], routes: Mapping[Ends, tuple[str, ...]]) -> dict[str, set[str]] | None:
    """Return the links that each point brings along to all of its routes, if every route consists of these.

    Examples
    --------
    >>> ways = {(x, y): (f"{x} up", f"{y} down") for x in "abc" for y in "abc" if x != y}
    >>> sorted(uplinks("abc", ways)["a"])
    ['a down', 'a up']
    >>> uplinks("ab", {("a", "b"): ("cable",), ("b", "a"): ("cable",)}) is None
    True
    """
    points = list(names)
    if any("" in ends for ends in routes):  # a star: each point has its way to the middle
        own: dict[str, set[str]] = {name: set() for name in points}
        for (a, b), links in routes.items():
            own[a or b] |= set(links)
        return own
    out: dict[str, set[str]] = {}
    into: dict[str, set[str]] = {}
    for (a, b), links in routes.items():
        out[a] = out.get(a, set(links)) & set(links)
        into[b] = into.get(b, set(links)) & set(links)
    if len(points) < 3 or set(out) != set(points) or set(into) != set(points):
        return None
    if any(not out[a] or not into[b] for a, b in routes):
        return None
    if any(out[a] & into[b] or out[a] | into[b] != set(links) for (a, b), links in routes.items()):
        return None
    return {name: out[name] | into[name] for name in points}


def lay_out_zones(root: Zone, name: str) -> Layout:
    """Place the hosts and routers of a zone, or its zones with their hosts around them."""
    points = root.members
    if len(points) > MOST_POINTS:
        raise PlatformError(
            f"{name} has {len(points):,} hosts and zones side by side: too many to be drawn",
            code="out-of-range",
        )
    names = [one.name for one in points]
    cables = joints(root)
    core = next(name for name in ("core", "core of the machine", "") if name not in names)
    own = uplinks(names, cables)
    layout = Layout(said="Hosts stand as far apart as the routes say, as well as a plane can show it.")
    if own:
        places = _circle(len(names))
        layout.switches[core] = (0.0, 0.0)
        layout.links = {(name, core): tuple(sorted(links)) for name, links in own.items()}
    else:
        number = {name: i for i, name in enumerate(names)}
        edges = {(min(pair), max(pair)) for pair in ((number[a], number[b]) for a, b in cables)}
        places = _spread(len(names), edges)
        for a, b in sorted(edges):
            both = ((names[a], names[b]), (names[b], names[a]))
            layout.links[both[0]] = tuple(dict.fromkeys(x for pair in both for x in cables.get(pair, ())))
    if any(not isinstance(one, Host) for one in points):
        layout.said = "Zones are squares with their hosts around them; what joins those is not drawn."
    for one, (x, y) in zip(points, places, strict=True):
        is_host = isinstance(one, Host) and one.speed is not None
        (layout.hosts if is_host else layout.switches)[one.name] = (x, y)
    between = list(layout.links)
    for one, place in zip(points, places, strict=True):
        if not isinstance(one, Host):
            _surround(layout, one, place, 0.32 * _gap(places))
    for a_name, b_name in between:
        layout.join(a_name, b_name)
    layout.host_points = list(_host_points(points))
    return layout


def _host_points(points: list[Host | Zone | ClusterZone]) -> Iterator[str | None]:
    """Name the point of every host, in the order of their numbers; None for those that are not drawn."""
    for one in points:
        if not isinstance(one, Host):
            for i in range(_hosts_of(one)):
                yield f"{one.name} {i}" if i < MOST_ROUND else None
        elif one.speed is not None:
            yield one.name


def _surround(layout: Layout, zone: Zone | ClusterZone, place: Point, radius: float) -> None:
    """Draw a zone's hosts on a circle; of many, some, and their number next to it."""
    hosts = _hosts_of(zone)
    shown = min(hosts, MOST_ROUND)
    for i in range(shown):
        angle = 2 * math.pi * i / shown
        host = f"{zone.name} {i}"
        layout.hosts[host] = (place[0] + radius * math.cos(angle), place[1] + radius * math.sin(angle))
        layout.join(host, zone.name)
        if isinstance(zone, ClusterZone):
            layout.links[host, zone.name] = tuple(f"{zone.name}: {link}" for link in zone.spec.own_links(i))
    side = 1.3 if place[1] > 0 else -1.3  # away from what is in the middle
    layout.notes.append((place[0], place[1] + side * radius, f"{zone.name}: {hosts:,} hosts"))


def _hosts_of(zone: Zone | ClusterZone) -> int:
    if isinstance(zone, ClusterZone):
        return zone.spec.hosts or 0
    return sum(one.speed is not None if isinstance(one, Host) else _hosts_of(one) for one in zone.members)


def _gap(places: list[Point]) -> float:
    """The least distance between two points."""
    return min(
        (math.dist(a, b) for i, a in enumerate(places) for b in places[:i]),
        default=1.0,
    )


def _spread(count: int, edges: set[tuple[int, int]]) -> list[Point]:
    """Classical scaling of the distances in hops; on a circle where that puts points on one another."""
    if count == 1:
        return [(0.0, 0.0)]
    hops = _hops(count, edges)
    squares = hops**2
    centered = squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-0.5 * centered)
    axes = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    # An eigenvector's sign is arbitrary: the first clearly non-zero entry points right, or up.
    for axis in axes.T:
        large = axis[np.abs(axis) > 1e-9]
        if large.size and large[0] < 0:
            axis *= -1
    places = [(float(y), float(x)) for x, y in axes]
    if _gap(places) > 0.05:
        return places
    return _circle(count)


def _circle(count: int) -> list[Point]:
    turn = 2 * math.pi / count
    return [(math.sin(i * turn), math.cos(i * turn)) for i in range(count)]


def _hops(count: int, edges: set[tuple[int, int]]) -> NDArray[np.float64]:
    """Distances in edges; what is not connected is as far apart as all points in a row."""
    hops = np.full((count, count), float(count))
    np.fill_diagonal(hops, 0.0)
    for a, b in edges:
        hops[a, b] = hops[b, a] = 1.0
    for middle in range(count):
        np.minimum(hops, hops[:, middle, None] + hops[None, middle, :], out=hops)
    return hops

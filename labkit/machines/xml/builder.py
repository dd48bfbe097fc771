"""A machine of zones from the elements of a platform file, one after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labkit.errors import PlatformError, nearest
from labkit.machines import models
from labkit.machines import quantities as units
from labkit.machines.spec import MAX_HOSTS, ClusterSpec, kinds
from labkit.machines.xml.elements import MODEL_PROPERTY, sharing_of
from labkit.machines.zones.zone import ClusterZone, Host, Profile, Zone, read_profile, refuse

__all__ = ["Builder", "radical"]

_ROUTINGS = {
    "full": "full",
    "floyd": "floyd",
    "dijkstra": "dijkstra",
    "dijkstracache": "dijkstra",
    "star": "star",
    "cluster": "star",
    "none": "none",
}

#: what a trace_connect may connect, and what of a host or link it is
_KINDS = {"SPEED": "speed_profile", "BANDWIDTH": "bw_profile", "LATENCY": "lat_profile"}
_MOST_PROFILE_BYTES = 1 << 20


@dataclass
class _Pending:
    """An element whose end has not come."""

    given: dict[str, str]
    place: str
    props: list[tuple[str, str]] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""


@dataclass
class _OldCluster:
    """What a zone with routing="Cluster" collects: each host's two links, and the backbone."""

    is_cluster: bool = False
    host_links: list[tuple[str, str, str, str]] = field(default_factory=list)
    backbone: str = ""


# ``<cluster>``, ``<cabinet>`` and their radicals, read.

_ZERO = re.compile(r"0+(\.0*)?([kMGTPEZY]?i?(f|flops))?")

_RANGE = re.compile(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?")


def radical(text: str) -> tuple[tuple[int, int], ...]:
    """Read host numbers, ``0-9,12,20-29``, as ranges with both ends; nothing is listed one by one.

    Examples
    --------
    >>> radical("0-9,12")
    ((0, 9), (12, 12))
    """
    ranges = []
    count = 0
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise PlatformError(
                f"radical {part[:40]!r} is neither a number nor a range; write it like 0-9,12",
                code="malformed-value",
            )
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise PlatformError(f"radical {part[:40]!r} runs downwards; write the smaller number first")
        count += last - first + 1
        if count > MAX_HOSTS:
            raise PlatformError(
                f"radical {text[:40]!r} has more than 2^20 = {MAX_HOSTS:,} hosts, the limit",
                code="out-of-range",
            )
        ranges.append((first, last))
    return tuple(ranges)


def first_speed(text: str, pstate: int = 0) -> float:
    """Read a speed; of several (one per pstate) the one that is chosen; the others may be 0."""
    parts = [part.strip() for part in text.split(",")]
    if pstate >= len(parts):
        raise PlatformError(
            f"pstate {pstate} is not there: {len(parts)} speed(s) are given", code="out-of-range"
        )
    others = [part for number, part in enumerate(parts) if number != pstate and not _ZERO.fullmatch(part)]
    for part in others:
        units.parse_speed(part, True)
    return units.parse_speed(parts[pstate], True)


def cluster_spec(given: dict[str, str], hosts: int) -> ClusterSpec:
    """Make a labkit cluster of an element's attributes."""
    common: dict[str, Any] = {
        "bw": units.parse_bandwidth(given["bw"], True),
        "lat": units.parse_time(given["lat"], True),
        "speed": first_speed(given["speed"]),
        "cores": units.parse_whole(given["core"], "core"),
        "sharing": sharing_of(given["sharing_policy"]),
    }
    if given["limiter_link"]:
        common["limiter"] = units.parse_bandwidth(given["limiter_link"], True)
    if given["loopback_bw"]:
        common["loopback_bw"] = units.parse_bandwidth(given["loopback_bw"], True)
    if given["loopback_lat"]:
        common["loopback_lat"] = units.parse_time(given["loopback_lat"], True) or None
    topology = given["topology"].upper()
    known = {str(kind.SIMGRID): kind for kind in kinds().values() if kind.SIMGRID}
    if topology not in known:
        raise PlatformError(
            f"topology={topology[:40]!r} is not known; allowed: {', '.join(known)}", code="unknown-name"
        )
    if topology != "FLAT" and given["bb_bw"]:
        raise PlatformError(
            f"a {topology} cluster has no backbone; take bb_bw out", code="conflicting-options"
        )
    spec = known[topology](**known[topology].from_simgrid(given, hosts), **common)
    if spec.hosts != hosts:
        raise PlatformError(
            f"topo_parameters {given['topo_parameters'][:60]!r} make {spec.hosts:,} hosts, the radical has "
            f"{hosts:,}; they must agree",
            code="count-mismatch",
        )
    return spec


def _give(zone: Zone, name: str, field_name: str, profile: Profile) -> bool:
    """Give a profile to a zone's own host or link of this name, if it has one."""
    if field_name == "speed_profile":
        for index, host in enumerate(zone.members):
            if isinstance(host, Host) and host.speed is not None and host.name == name:
                zone.members[index] = replace(host, speed_profile=profile)
                return True
        return False
    for index, link in enumerate(zone.links):
        both = [f"{link.name}_UP", f"{link.name}_DOWN"] if link.sharing == "splitduplex" else []
        if name in (link.name, *both):  # both directions change together
            is_bw = field_name == "bw_profile"
            zone.links[index] = (
                replace(link, bw_profile=profile) if is_bw else replace(link, lat_profile=profile)
            )
            return True
    return False


class Builder:
    """Takes elements whose place and attributes are right, and makes zones.

    `source`: The file, for messages.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._zones: list[Zone] = []
        self._old: dict[int, _OldCluster] = {}
        self._pending: list[_Pending] = []
        self._root: Zone | ClusterZone | None = None
        #: name of the network model; None: labkit's default
        self.model: str | None = None
        self._hosts = 0
        self._traces: dict[str, tuple[Profile, str]] = {}
        #: trace, element, kind, place
        self._connected: list[tuple[str, str, str, str]] = []

    def start(self, word: str, given: dict[str, str], place: str) -> None:
        """Take the beginning of an element."""
        if word == "zone":
            self._start_zone(given, place)
        elif word == "prop":
            self._prop(given, place)
        elif word == "link_ctn":
            self._link_ctn(given, place)
        elif word == "platform":
            self._check_version(given["version"], place)
        else:
            if given.get("state_file"):
                raise refuse(
                    place,
                    f"<{word}> has state_file: hosts and links that fail are not supported; take it out",
                )
            self._pending.append(_Pending(given, place))

    def end(self, word: str, place: str) -> None:
        """Take the end of an element."""
        if word == "zone":
            self._end_zone()
        elif word not in ("prop", "link_ctn", "platform"):
            one = self._pending.pop()
            try:
                getattr(self, f"_{word.lower()}")(one)
            except PlatformError as error:
                # Everything but what was refused with its place gets the place of the element.
                text = str(error)
                raise (error if text.startswith(self._source) else refuse(one.place, text)) from None
        del place

    def text(self, text: str) -> None:
        """Take the text of a trace."""
        self._pending[-1].text += text

    def finished(self) -> tuple[Zone | ClusterZone, str]:
        """Hand over the outermost zone or cluster, and the network model.

        Raises PlatformError: There is none.
        """
        if self._root is None:
            raise refuse(
                self._source, "the platform is empty; it needs a zone or a cluster", "malformed-file"
            )
        if isinstance(self._root, Zone):
            self._connect_traces(self._root)
            self._check_directions(self._root)
        elif self._traces or self._connected:
            raise refuse(self._source, "a <trace> of a cluster: hosts and links of clusters have no profiles")
        return self._root, self.model or models.DEFAULT

    @property
    def has_root(self) -> bool:
        """Whether there was a zone or a cluster."""
        return self._root is not None

    def settle(self, model: str | None, source: str) -> None:
        """Take the model that the file's settings of SimGrid make.

        Raises PlatformError: A property names another one.
        """
        if model is None:
            return
        if self.model is not None and models.get(self.model) != models.get(model):
            raise refuse(
                source,
                f"<config> makes the network model {model[:60]!r}, a property makes it {self.model[:60]!r}",
            )
        self.model = model

    # --- zones --------------------------------------------------------------------------------------

    def _check_version(self, text: str, place: str) -> None:
        number = text.strip()
        if number not in ("4", "4.0", "4.1", "4.2"):
            raise refuse(
                place,
                f"platform version {number[:20]!r} is not supported; allowed: 4 and 4.1 (SimGrid's tool "
                "simgrid_update_xml rewrites older files)",
            )

    def _start_zone(self, given: dict[str, str], place: str) -> None:
        routing = _ROUTINGS.get(given["routing"].lower())
        if routing is None:
            known = ["Full", "Floyd", "Dijkstra", "DijkstraCache", "Star", "ClusterZone", "None"]
            near = nearest(given["routing"], known)
            raise refuse(
                place,
                f"routing={given['routing'][:40]!r} is not supported"
                f"{near or '; allowed: ' + ', '.join(known)}",
            )
        zone = Zone(given["id"], routing, place=place)
        if self._zones:
            self._zones[-1].members.append(zone)
        else:
            self._set_root(zone, place)
        self._zones.append(zone)
        self._old[id(zone)] = _OldCluster(given["routing"].lower() == "cluster")

    def _set_root(self, root: Zone | ClusterZone, place: str) -> None:
        if self._root is not None:
            raise refuse(
                place, "a second outermost zone or cluster; a platform has one: put both into a zone"
            )
        self._root = root

    def _end_zone(self) -> None:
        zone = self._zones.pop()
        old = self._old.pop(id(zone))
        if old.is_cluster:
            linked = {host for host, *_ in old.host_links}
            for one in zone.members:
                if isinstance(one, Host) and one.speed is not None and one.name not in linked:
                    raise refuse(
                        one.place or zone.place,
                        f"host {one.name!r} has no <host_link>, which every host of a zone with "
                        f'routing="Cluster" needs; write <host_link id={one.name!r} up="LINK" down="LINK"/>',
                    )
        backbone = [(old.backbone, "")] if old.backbone else []
        for host, up, down, place in old.host_links:
            for src, dst, links in ((host, "", [(up, ""), *backbone]), ("", host, [*backbone, (down, "")])):
                zone.route(src, dst, links, symmetrical=False, place=place)

    def _check_directions(self, root: Zone) -> None:
        """A split-duplex link is two: SimGrid wants to know which, and so does labkit."""
        pairs = {link.name for zone in root.walk() for link in zone.links if link.sharing == "splitduplex"}
        for zone in root.walk():
            for route in zone.routes:
                for name, way in route.links:
                    if name in pairs and not way:
                        raise refuse(
                            route.place,
                            f'{route}: link {name!r} is SPLITDUPLEX; say direction="UP" or "DOWN"',
                        )

    @property
    def _zone(self) -> Zone:
        return self._zones[-1]

    def _star(self, what: str) -> _OldCluster:
        if self._zone.routing != "star":
            raise PlatformError(f'<{what}> belongs into a zone with routing="Cluster"')
        return self._old[id(self._zone)]

    # --- what is in them ----------------------------------------------------------------------------

    def _prop(self, given: dict[str, str], place: str) -> None:
        name, value = given["id"], given["value"]
        if name == MODEL_PROPERTY:
            if value.partition(",")[0] not in models.names():  # no other file is opened
                raise refuse(
                    place, f"network model {value[:40]!r} is not known; allowed: {', '.join(models.names())}"
                )
            try:
                models.get(value)
            except PlatformError as error:
                raise refuse(place, str(error)) from None
            self.model = value
        elif self._pending:
            self._pending[-1].props.append((name, value))
        elif self._zones:
            self._zone.props = (*self._zone.props, (name, value))

    def _link_ctn(self, given: dict[str, str], place: str) -> None:
        way = given["direction"].upper()
        if way not in ("UP", "DOWN", "NONE"):
            raise refuse(
                place, f"direction={given['direction'][:40]!r} is not known; allowed: UP, DOWN, NONE"
            )
        self._pending[-1].links.append((given["id"], "" if way == "NONE" else way.lower()))

    def _host(self, one: _Pending) -> None:
        pstate = one.given["pstate"].removesuffix(".0")
        if not (pstate.isascii() and pstate.isdigit()) or len(pstate) > 4:
            raise PlatformError(
                f"pstate={pstate[:40]!r} is not a whole number from 0 on", code="malformed-value"
            )
        speed = first_speed(one.given["speed"], int(pstate))
        cores = units.parse_whole(one.given["core"], "core")
        attribute = "speed_file" if one.given["speed_file"] else "availability_file"
        self._zone.host(
            one.given["id"],
            speed,
            cores,
            speed_profile=self._file(one, attribute),
            place=one.place,
            props=tuple(one.props),
        )

    def _router(self, one: _Pending) -> None:
        self._zone.router(one.given["id"], place=one.place)

    def _link(self, one: _Pending) -> None:
        self._zone.link(
            one.given["id"],
            units.parse_bandwidth(one.given["bandwidth"], True),
            units.parse_time(one.given["latency"], True),
            sharing_of(one.given["sharing_policy"]),
            bw_profile=self._file(one, "bandwidth_file"),
            lat_profile=self._file(one, "latency_file"),
            place=one.place,
            props=tuple(one.props),
        )

    # --- what changes with time ---------------------------------------------------------------------

    def _file(self, one: _Pending, attribute: str, period_s: float = 0.0) -> Profile | None:
        """Read a profile's file: of the platform's folder or below, no other."""
        name = one.given.get(attribute, "")
        if not name:
            return None
        given = f"{attribute}={name[:80]!r}"
        folder = Path(self._source).parent.resolve()
        path = (folder / name).resolve()
        if not path.is_relative_to(folder):
            raise refuse(one.place, f"{given} is not in the platform's folder, or below; put it there")
        try:
            if path.stat().st_size > _MOST_PROFILE_BYTES:
                raise refuse(one.place, f"{given} is longer than 1 MiB, the most there may be")
            return read_profile(path.read_text(encoding="utf-8"), f"{one.place}: {given}", period_s)
        except (OSError, UnicodeDecodeError) as error:
            raise refuse(
                one.place, f"{given} cannot be read ({getattr(error, 'strerror', None) or error})"
            ) from None

    def _trace(self, one: _Pending) -> None:
        name, given = one.given["id"], one.given
        if name in self._traces:
            raise PlatformError(f"a second <trace> {name[:40]!r}")
        try:
            period_s = max(float(given["periodicity"]), 0.0)
        except ValueError:
            raise PlatformError(
                f"periodicity={given['periodicity'][:40]!r} is no number of seconds"
            ) from None
        if bool(given["file"]) == bool(one.text.strip()):
            raise PlatformError("a <trace> has either a file or text: a time and a value on each line")
        read = self._file(one, "file", period_s) or read_profile(one.text, one.place, period_s)
        assert read is not None
        self._traces[name] = read, one.place

    def _trace_connect(self, one: _Pending) -> None:
        kind = one.given["kind"].upper()
        if kind not in _KINDS:
            raise PlatformError(f"kind={kind[:20]!r} is not supported; allowed: {', '.join(_KINDS)}")
        self._connected.append((one.given["trace"], one.given["element"], kind, one.place))

    def _connect_traces(self, root: Zone) -> None:
        for trace, element, kind, place in self._connected:
            if trace not in self._traces:
                near = nearest(trace, list(self._traces))
                raise refuse(place, f"<trace_connect>: there is no trace {trace[:40]!r}{near}")
            profile, _ = self._traces[trace]
            if not any(_give(zone, element, _KINDS[kind], profile) for zone in root.walk()):
                what = "host" if kind == "SPEED" else "link"
                raise refuse(
                    place, f"<trace_connect>: there is no {what} {element[:40]!r} outside of clusters"
                )
        used = {trace for trace, *_ in self._connected}
        for name, (_, place) in self._traces.items():
            if name not in used:
                raise refuse(
                    place,
                    f"<trace> {name[:40]!r} has no effect: connect it to a host or link with <trace_connect>",
                )

    def _backbone(self, one: _Pending) -> None:
        old = self._star("backbone")
        if old.backbone:
            raise PlatformError(f"a second backbone; zone {self._zone.name!r} has {old.backbone!r} already")
        old.backbone = one.given["id"]
        one.given = {**one.given, "sharing_policy": "SHARED"}
        self._link(one)

    def _host_link(self, one: _Pending) -> None:
        self._star("host_link").host_links.append(
            (one.given["id"], one.given["up"], one.given["down"], one.place)
        )

    def _route(self, one: _Pending) -> None:
        self._add_route(one, {})

    def _zoneroute(self, one: _Pending) -> None:
        self._add_route(one, {"gw_src": one.given["gw_src"], "gw_dst": one.given["gw_dst"]})

    def _bypassroute(self, one: _Pending) -> None:
        one.given = {**one.given, "symmetrical": "NO"}
        self._add_route(one, {"bypass": True})

    def _bypasszoneroute(self, one: _Pending) -> None:
        gateways = {"gw_src": one.given["gw_src"], "gw_dst": one.given["gw_dst"]}
        one.given = {**one.given, "symmetrical": "NO"}
        self._add_route(one, {**gateways, "bypass": True})

    def _add_route(self, one: _Pending, gateways: dict[str, Any]) -> None:
        word = one.given["symmetrical"].upper()
        if word not in ("YES", "NO"):
            raise PlatformError(
                f"symmetrical={word[:40]!r} is not known; allowed: YES, NO", code="unknown-name"
            )
        self._zone.route(
            one.given["src"],
            one.given["dst"],
            one.links,
            symmetrical=word == "YES",
            place=one.place,
            **gateways,
        )

    def _numbers(self, one: _Pending) -> tuple[tuple[int, int], ...]:
        numbers = radical(one.given["radical"])
        self._hosts += sum(last - first + 1 for first, last in numbers)
        if self._hosts > 2**20:
            raise PlatformError(
                "the clusters so far have more than 2^20 hosts, the most there may be", code="out-of-range"
            )
        return numbers

    def _cabinet(self, one: _Pending) -> None:
        """Hosts with two links each, as SimGrid names them."""
        old, given = self._star("cabinet"), one.given
        bw, lat, speed = (
            units.parse_bandwidth(given["bw"], True),
            units.parse_time(given["lat"], True),
            first_speed(given["speed"]),
        )
        for first, last in self._numbers(one):
            for number in range(first, last + 1):
                name = f"{given['prefix']}{number}{given['suffix']}"
                self._zone.host(name, speed, place=one.place)
                ends = [f"link_{name}_UP", f"link_{name}_DOWN"]
                for link in ends:
                    self._zone.link(link, bw, lat, place=one.place)
                old.host_links.append((name, ends[0], ends[1], one.place))

    def _cluster(self, one: _Pending) -> None:
        given = one.given
        numbers = self._numbers(one)
        count = sum(last - first + 1 for first, last in numbers)
        spec = cluster_spec(given, count)
        holder = self._zone if self._zones else Zone("outermost")
        cluster = holder.cluster(
            given["id"],
            spec,
            prefix=given["prefix"],
            suffix=given["suffix"],
            radical=numbers,
            router=given["router_id"] or None,
            place=one.place,
            props=tuple(one.props),
        )
        if not self._zones:
            self._set_root(cluster, one.place)

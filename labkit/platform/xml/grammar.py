"""The grammar of SimGrid's platform files (version 4.1): elements, attributes, nesting."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ELEMENTS", "READ_OVER", "SYNONYMS", "UNSUPPORTED", "Element"]


@dataclass(frozen=True)
class Element:
    """One element.

    Attributes
    ----------
    needed : tuple of str
        Attributes it must have.
    allowed : dict
        Further attributes and their defaults.
    inside : tuple of str
        Elements it may hold.
    """

    needed: tuple[str, ...] = ()
    allowed: dict[str, str] | None = None
    inside: tuple[str, ...] = ()

    @property
    def attributes(self) -> list[str]:
        """All attributes it may have."""
        return [*self.needed, *(self.allowed or {})]


_CLUSTER = {
    "core": "1", "sharing_policy": "SPLITDUPLEX", "topology": "FLAT", "topo_parameters": "", "bb_bw": "",
    "bb_lat": "", "bb_sharing_policy": "SHARED", "router_id": "", "limiter_link": "", "loopback_bw": "",
    "loopback_lat": "",
}  # fmt: skip
_HOST = {
    "core": "1", "speed_file": "", "availability_file": "", "state_file": "", "coordinates": "",
    "pstate": "0",
}  # fmt: skip
_LINK = {
    "bandwidth_file": "", "latency": "0", "latency_file": "", "state_file": "", "sharing_policy": "SHARED",
}  # fmt: skip

#: Words of older files that mean the same.
SYNONYMS = {"AS": "zone", "ASroute": "zoneRoute", "bypassASroute": "bypassZoneRoute"}

ELEMENTS = {
    "platform": Element(("version",), None, ("zone", "cluster")),
    "zone": Element(
        ("id", "routing"), None,
        ("prop", "zone", "cluster", "host", "router", "link", "route", "zoneRoute", "bypassRoute",
         "bypassZoneRoute", "backbone", "cabinet", "host_link"),
    ),
    "cluster": Element(("id", "prefix", "suffix", "radical", "speed", "bw", "lat"), _CLUSTER, ("prop",)),
    "cabinet": Element(("id", "prefix", "suffix", "radical", "speed", "bw", "lat")),
    "host": Element(("id", "speed"), _HOST, ("prop",)),
    "router": Element(("id",), {"coordinates": ""}),
    "link": Element(("id", "bandwidth"), _LINK, ("prop",)),
    "backbone": Element(("id", "bandwidth", "latency")),
    "host_link": Element(("id", "up", "down")),
    "route": Element(("src", "dst"), {"symmetrical": "YES"}, ("link_ctn",)),
    "zoneRoute": Element(("src", "dst", "gw_src", "gw_dst"), {"symmetrical": "YES"}, ("link_ctn",)),
    "bypassRoute": Element(("src", "dst"), None, ("link_ctn",)),
    "bypassZoneRoute": Element(("src", "dst", "gw_src", "gw_dst"), None, ("link_ctn",)),
    "link_ctn": Element(("id",), {"direction": "NONE"}),
    "prop": Element(("id", "value")),
}  # fmt: skip

#: Elements that no message and no computation of an MPI program feels: read over, and said to be.
READ_OVER = (
    "disk",
    "storage",
    "storage_type",
    "mount",
    "actor",
    "process",
    "argument",
    "model_prop",
    "random",
)

#: Elements that would change a simulation and that labkit does not have, and what to do instead.
UNSUPPORTED = {
    "include": "files that include others are not supported; put the other file's text in its place",
    "trace": "what changes with time (speeds, bandwidths, latencies, hosts) is not supported; take it out",
    "trace_connect": "what changes with time (speeds, bandwidths, latencies) is not supported; take it out",
    "peer": "peers (Vivaldi coordinates) are not supported; write hosts, links and routes",
}

"""SimGrid's platform XML of a machine of zones."""

from __future__ import annotations

from labkit.platform import models
from labkit.platform.xml.cluster import cluster_element
from labkit.platform.xml.elements import (
    MODEL_PROPERTY,
    attributes_text,
    element,
    number,
    props_text,
    whole_file,
)
from labkit.platform.zones.parts import Cluster, Host, Link, Route
from labkit.platform.zones.zone import Zone

__all__ = ["zones_xml"]

_ROUTINGS = {"full": "Full", "floyd": "Floyd", "dijkstra": "Dijkstra", "star": "Star", "none": "None"}


def zones_xml(root: Zone, model: str = models.DEFAULT) -> str:
    """Write a machine of zones (version 4.1).

    Parameters
    ----------
    root : Zone
        The machine.
    model : str
        Network model of a run that names none, kept as a property where it is not the default.

    Returns
    -------
    str
        The file's text.
    """
    lines: list[str] = []
    pairs = {link.name for zone in root.walk() for link in zone.links if link.sharing == "splitduplex"}
    _write_zone(root, "  ", lines, pairs, () if model == models.DEFAULT else ((MODEL_PROPERTY, model),))
    return whole_file("".join(lines))


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
        elif isinstance(one, Cluster):
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
    attributes = {"id": host.name, "speed": f"{number(host.speed)}f"}
    if host.cores > 1:
        attributes["core"] = str(host.cores)
    return element("host", attributes, indent, host.props)


def _link(link: Link, indent: str) -> str:
    attributes = {"id": link.name, "bandwidth": f"{number(link.bw)}Bps", "latency": f"{number(link.lat)}s"}
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

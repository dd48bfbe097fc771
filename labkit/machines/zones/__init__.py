"""Machines of zones in zones: explicit graphs, explicit routes, clusters joined to each other."""

from labkit.machines.zones.spec import ZonesSpec
from labkit.machines.zones.zone import ClusterZone, Host, Link, Route, Zone

__all__ = ["ClusterZone", "Host", "Link", "Route", "Zone", "ZonesSpec"]

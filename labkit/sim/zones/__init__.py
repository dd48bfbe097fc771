"""Machines of zones in zones: explicit graphs, explicit routes, clusters joined to each other."""

from labkit.sim.zones.parts import Cluster, Host, Link, Route
from labkit.sim.zones.spec import ZonesSpec
from labkit.sim.zones.zone import Zone

__all__ = ["Cluster", "Host", "Link", "Route", "Zone", "ZonesSpec"]

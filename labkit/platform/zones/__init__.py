"""Machines of zones in zones: explicit graphs, explicit routes, clusters joined to each other."""

from labkit.platform.zones.spec import ZonesSpec
from labkit.platform.zones.zone import Cluster, Host, Link, Route, Zone

__all__ = ["Cluster", "Host", "Link", "Route", "Zone", "ZonesSpec"]

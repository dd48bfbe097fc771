"""Platform specifications: ``star:64,bw=1.25GBps,lat=1us`` to a checked description and back."""

from labkit.machines.spec.cluster import MAX_HOSTS, MAX_LINKS, ClusterSpec, LinksOfCables
from labkit.machines.spec.machine import MachineSpec
from labkit.machines.spec.reader import kinds, parse_spec

__all__ = ["MAX_HOSTS", "MAX_LINKS", "ClusterSpec", "LinksOfCables", "MachineSpec", "kinds", "parse_spec"]

"""Platform specifications: ``star:64,bw=1.25GBps,lat=1us`` to a checked description and back."""

from labkit.sim.spec.cluster import MAX_HOSTS, MAX_LINKS, ClusterSpec
from labkit.sim.spec.dragonfly import DragonflySpec
from labkit.sim.spec.fat_tree import FatTreeSpec
from labkit.sim.spec.machine import MachineSpec
from labkit.sim.spec.reader import KINDS, parse_spec
from labkit.sim.spec.star import StarSpec
from labkit.sim.spec.torus import TorusSpec

__all__ = [
    "KINDS",
    "MAX_HOSTS",
    "MAX_LINKS",
    "ClusterSpec",
    "DragonflySpec",
    "FatTreeSpec",
    "MachineSpec",
    "StarSpec",
    "TorusSpec",
    "parse_spec",
]

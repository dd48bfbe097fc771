"""Platform specifications: ``star:64,bw=1.25GBps,lat=1us`` to a checked description and back."""

from labkit.platform.spec.cluster import MAX_HOSTS, MAX_LINKS, ClusterSpec
from labkit.platform.spec.dragonfly import DragonflySpec
from labkit.platform.spec.fat_tree import FatTreeSpec
from labkit.platform.spec.machine import MachineSpec
from labkit.platform.spec.reader import KINDS, parse_spec
from labkit.platform.spec.star import StarSpec
from labkit.platform.spec.torus import TorusSpec

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

"""Measures of a machine: diameter, bisection bandwidth, kinds of links."""

from labkit.platform.measures.bisection import Bisection, bisection
from labkit.platform.measures.diameter import Diameter, diameter
from labkit.platform.measures.links import LinkKind, link_kinds, link_table

__all__ = ["Bisection", "Diameter", "LinkKind", "bisection", "diameter", "link_kinds", "link_table"]

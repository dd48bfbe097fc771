"""Drawings of machines: the places of hosts, switches and cables, and a small picture."""

from labkit.platform.layout.base import Layout
from labkit.platform.layout.clusters import MAX_DRAWN_HOSTS, lay_out, smaller
from labkit.platform.layout.svg import picture

__all__ = ["MAX_DRAWN_HOSTS", "Layout", "lay_out", "picture", "smaller"]

"""Simulated machines: platforms, network models and the simulator's front end."""

from __future__ import annotations

from labkit.sim.platform import Platform, graph, platform
from labkit.sim.zones import Zone

__all__ = ["Platform", "Zone", "graph", "platform"]

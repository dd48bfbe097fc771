"""Simulated machines: platforms, network models and the simulator's front end."""

from __future__ import annotations

from labkit.machines.platform import Platform, graph, platform
from labkit.machines.zones import Zone

__all__ = ["Platform", "Zone", "graph", "platform"]

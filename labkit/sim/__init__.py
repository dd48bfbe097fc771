"""Simulated machines: platforms, network models and the simulator's front end."""

from __future__ import annotations

from labkit.sim.platform import Platform, platform

__all__ = ["Platform", "platform"]

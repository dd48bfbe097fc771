"""The simulated communicator: mpi4py's names and semantics over the simulation engine."""

from __future__ import annotations

from labkit.comm.module import simulated_module

__all__ = ["simulated_module"]

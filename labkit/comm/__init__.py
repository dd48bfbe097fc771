"""The simulated communicator: mpi4py's names and semantics over the simulation engine.

============== ===============================================================================================
simulated      of mpi4py
============== ===============================================================================================
messages       blocking, nonblocking, persistent, buffers and objects, probes, Isendrecv
collectives    blocking, nonblocking, persistent, of neighbours too; Alltoallw; objects: blocking only
requests       Wait, Test and their kin over lists, Get_status, Cancel and Free of single messages
communicators  Dup, Idup, Split, Split_type, Create, Create_group; grids, graphs, distributed graphs
besides        groups, operators, predefined datatypes, hints, error handlers, predefined attributes
refused        by name: derived datatypes, intercommunicators, spawning, windows, files, sessions,
               partitioned messages, generalized requests, keyvals, handles as numbers
============== ===============================================================================================

How nonblocking collectives go on while their ranks compute: `labkit.comm.collective.collectives`.
"""

from __future__ import annotations

from labkit.comm.module import simulated_module

__all__ = ["simulated_module"]

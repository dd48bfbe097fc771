"""The simulated communicator: mpi4py's names and semantics over the simulation engine.

============== ===============================================================================================
simulated      of mpi4py
============== ===============================================================================================
messages       blocking, nonblocking, persistent, partitioned, buffers and objects, probes, Isendrecv
datatypes      derived ones too, in every call; Pack and Unpack, external32; MPI.buffer, addresses
collectives    blocking, nonblocking, persistent, of neighbors, between groups; objects: blocking
requests       Wait, Test and their forms over lists, Get_status, Cancel, Free; generalized requests
communicators  Dup, Idup, Split, Split_type, Create, Create_group; grids, graphs; intercommunicators
other          groups, operators, hints, error handlers, classes and codes, attributes, sessions
windows        all flavors and epochs, accumulates, requests, attributes (`labkit.comm.rma`)
files          all reads and writes, views, pointers, on this host's files (`labkit.comm.files`)
refused        by name: spawning, ports, fault tolerance
============== ===============================================================================================

How nonblocking collectives go on while their ranks compute: `labkit.comm.intracomm`.
"""

__all__: list[str] = []

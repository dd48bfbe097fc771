"""The calls of a simulated run's ranks with their times and call paths, noted while the run is traced.

As the recorder of real runs does, it stands between the program and MPI, but only while a traced run goes on:
the methods of the communicators and requests are then replaced by ones that note the call and make it. What
they are is the table of mpi4py's surface. Nothing is noted of what a call calls in turn.
"""

from labkit.sim.calls.stand_ins import NOTING, CallNotes, CallSummary

__all__ = ["NOTING", "CallNotes", "CallSummary"]

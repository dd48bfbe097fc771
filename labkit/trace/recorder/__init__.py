"""Recording real runs: mpi4py's calls with their times, or as a time-independent trace, or both.

A recorder stands between the program and mpi4py, by methods made from the table of mpi4py's surface. With
times (``trace=True``) it notes every call, on the rank's own clock; `labkit.trace.recorder.timeline` makes a
`labkit.trace.Trace` of what all ranks noted. Without times it writes the lines that a simulated run gives.

How the lines say what SimGrid's text, which has one world of ranks, cannot express:

- Peers are ranks of the world. Messages and collectives of another communicator have ``comm=N`` at the end,
  and a line ``#+ comm N members`` stands before the first collective. SimGrid reads such a message as one of
  the world's; such a collective must not be given to it: `labkit.sim.replay.without_collectives` turns
  collectives into messages.
- A copy of the world calls the world's collectives. Making a communicator is a barrier of the old one; a
  split is an allgather of two numbers of four bytes a rank.
- Collectives of Python objects are the messages that mpi4py makes of them: sizes first, then the pickles.
  Those of reductions go over its trees, with tags from 2^30 on and an odd ``comm=``, as do neighbor
  collectives.
- A receive from any source is written with the source that it got. Tests and probes that found nothing are
  not written; a test that succeeded is a wait.
- Computation is ``compute``, a flop for each nanosecond of CPU time of the rank's thread between its calls:
  as measured, never quite the same twice. ``#+ RANK phase begin NAME`` and ``end`` are the program's phases.
- What has no form at all (nonblocking and persistent collectives, windows, spawned processes, ...) is refused
  by name when it is called: `labkit.trace.recorder.windows`.
"""

__all__: list[str] = []

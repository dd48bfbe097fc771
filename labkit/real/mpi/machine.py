"""Real MPI as a machine: ``on="mpi"``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit.request import Machine, RunRequest, refuse_for_functions
from labkit.selector import Selector, Situation, stated

if TYPE_CHECKING:
    from labkit.result import Run

__all__ = ["RealMpi"]


class RealMpi(Machine):
    """MPI ranks of this host, or of the hosts of a file.

    The program gets mpi4py's ``COMM_WORLD``, and ``labkit.MPI`` is ``mpi4py.MPI`` in the ranks. A function
    travels by value (notebook cells, closures and lambdas too), labkit and installed packages by name. It is
    called after a barrier; the makespan runs from the first rank's entry to the last rank's exit on the
    host's monotonic clock, which all ranks share; on several hosts, whose clocks differ, it is the longest of
    theirs. More ranks than the available cores work, but their times are not valid.

    With `coll`, collectives on buffers and on objects take labkit's algorithms, over mpi4py's messages
    (``"allreduce=ring"``, ``"ompi"``, a file of rules), or the library's own, forced by its switches
    (``"allreduce=library:ring"``; Open MPI, MPICH); what is left open is the library's choice. Nonblocking
    ones go on in a thread. Persistent ones, ``Alltoallw`` and those of neighbours are the library's, and
    reductions of objects mpi4py's own.

    Its options, in addition to those of every machine:

    mpi : str
        ``"bundled"``, ``"system"`` or the path of an mpiexec; default: the environment variable
        ``LABKIT_MPI``, then the bundled MPI.
    output_limit_bytes : int
        What all ranks together may print; default: 200 MB.
    hostfile : path
        The hosts, as ``node1 slots=4`` on each line: reached by ssh, with labkit at the same place and a
        folder that all share (``LABKIT_MPI_FOLDER``, or where the file lies). Default: the environment
        variable ``LABKIT_MPI_HOSTFILE``, then this host.
    stdin : str or file
        What rank 0 of a script reads from standard input: a text, an open file or its descriptor. Default:
        nothing.
    start : mapping
        How Python starts a script: ``module``, its name behind ``-m``, or ``"-c"``.
    leave_out : str, path or sequence of str
        With ``trace=True`` or ``summary=True``: phases, and functions of `regions`, in which nothing is
        recorded (``*`` stands for anything), or a filter file, as `Run.score` writes it. What is called there
        counts as computation; `Run.score` says what that saves.
    summary : bool
        Sum each rank's time, calls and messages up by call path while the program runs, and keep no event:
        `Run.profile` then needs no trace. Memory by phase comes with ``count=True``.
    counters : str or sequence of str
        Of the host, by call path and rank, in `Run.profile` and, with ``trace=True``, `Run.report`:
        ``["instructions", "page-faults"]`` (`labkit.trace.counters.EVENTS`). Without a trace they come as
        with ``summary=True``. A note says which of them this host does not give.
    measuring : dict
        How a sweep repeats and starts the runs of one launch: see `labkit.real.program`.
    """

    name = 'on="mpi"'
    words = ("mpi",)
    takes_coll = True
    options = (
        "mpi",
        "output_limit_bytes",
        "hostfile",
        "stdin",
        "start",
        "measuring",
        "leave_out",
        "summary",
        "counters",
    )

    def checked(self, request: RunRequest) -> RunRequest:
        """Refuse what belongs to simulations, and what belongs to scripts for functions; read `coll`."""
        refuse_for_functions(request)
        request = super().checked(request)
        if request.coll is None:
            return request
        return request.changed(coll=read_choice(request.coll, request.ranks))

    def run(self, request: RunRequest) -> Run:
        """Launch the ranks, and bring everything back."""
        from labkit.real.mpi.client import run_ranks

        return run_ranks(request)


# The `coll` of a run on real MPI, read before it starts.


def read_choice(coll: object, ranks: int) -> Selector:
    """Return the selector of a run."""
    selector = stated(coll)
    selector.choose(Situation("barrier", ranks))  # one that would simulate says so now
    return selector

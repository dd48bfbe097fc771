"""Real machines, as values of `on`: MPI on this host, a running cluster of engines, batch jobs of Slurm."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from labkit.errors import MachineError
from labkit.real.engines.target import is_cluster
from labkit.real.slurm.options import Slurm, is_slurm, slurm_of
from labkit.request import Machine, RunRequest, refuse_for_functions
from labkit.selector import Selector, Situation, stated

if TYPE_CHECKING:
    from labkit.result import Run

__all__ = ["Engines", "RealMpi", "SlurmCluster"]


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
    ones go on in a thread. Persistent ones, ``Alltoallw`` and those of neighbors are the library's, and
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
    stream : bool
        Write what the ranks of a script print to this process's standard output and error, as it comes;
        nothing of it is kept in `Run.output`.
    start : mapping
        How Python starts a script: ``module``, its name behind ``-m``, or ``"-c"``.
    leave_out : str, path or sequence of str
        With ``trace=True`` or ``summary=True``: phases, and functions of `regions`, in which nothing is
        recorded (``*`` stands for anything), or a filter file, as `Run.score` writes it. What is called there
        counts as computation; `Run.score` shows what that saves.
    summary : bool
        Sum each rank's time, calls and messages up by call path while the program runs, and keep no event:
        `Run.profile` then needs no trace. Memory by phase comes with ``count=True``.
    counters : str or sequence of str
        Of the host, by call path and rank, in `Run.profile` and, with ``trace=True``, `Run.report`:
        ``["instructions", "page-faults"]`` (`labkit.trace.counters.EVENTS`). Without a trace they come as
        with ``summary=True``. A note names those that this host does not have.
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
        "stream",
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


class Engines(Machine):
    """The first ranks of a running cluster of MPI engines: of `labkit.cluster`, or of ipyparallel.

    The program's communicator, and ``MPI.COMM_WORLD`` while it runs, is a duplicate of these ranks' own
    communicator; its blocking calls are made of nonblocking ones, so that they can be interrupted: about a
    microsecond more for each. A rank that is blocked in other C code cannot be interrupted; the error then
    says which, and the engines have to be restarted.

    Between runs the engines keep what a program changed in installed packages, the threads it left running,
    and their own environment variables; its modules, folder, search path, random numbers and messages go.

    Its options, in addition to those of every machine:

    output_limit_bytes : int
        What all ranks together may print; default: 50 MB.
    leave_out : str or sequence of str
        As of `RealMpi`.
    summary : bool
    counters : str or sequence of str
        Likewise.
    """

    name = "a cluster"
    words = ("cluster", "ipyparallel")
    options = ("output_limit_bytes", "measuring", "leave_out", "summary", "counters")

    def owns(self, on: object) -> bool:
        """Whether it is a Cluster, Client or DirectView; or a string for one, which `checked` explains."""
        return is_cluster(on) or super().owns(on)

    def size(self, on: object) -> int | None:
        """Return the number of its engines."""
        from labkit.real.engines.target import find_target

        return None if isinstance(on, str) else len(find_target(on).engines)

    def checked(self, request: RunRequest) -> RunRequest:
        """Refuse a cluster that is only named."""
        if isinstance(request.on, str):
            raise MachineError(
                f"on={request.on!r}: a cluster of engines is given as an object: start one with "
                "labkit.cluster(4), or pass a Cluster, Client or DirectView of ipyparallel; without one use "
                'on="mpi"',
                code="conflicting-options",
            )
        return super().checked(request)

    def run(self, request: RunRequest) -> Run:
        """Send every engine its part, and bring everything back."""
        from labkit.real.engines.client import run_on_engines

        return run_on_engines(request)


class SlurmCluster(Machine):
    """A batch job for a run, which is waited for; all runs of a sweep are submitted before the first is.

    The program travels by value in a file; a script has to lie where the compute nodes can read it. The time
    limit is that of the launch inside the job: the wait in the queue does not count. Its options, in
    addition to those of every machine, are those of `labkit.slurm`, over those of `on`, and

    leave_out : str or sequence of str
        As of `RealMpi`.
    summary : bool
    counters : str or sequence of str
        Likewise.
    output_limit_bytes : int
        What all ranks together may print; default: 200 MB.
    """

    name = "Slurm"
    words = ("slurm",)
    is_queued = True
    options = (
        "output_limit_bytes",
        "measuring",
        "leave_out",
        "summary",
        "counters",
        *(one.name for one in dataclasses.fields(Slurm)),
    )

    def owns(self, on: object) -> bool:
        """Whether it is an object of `labkit.slurm`, or its text."""
        return is_slurm(on)

    def checked(self, request: RunRequest) -> RunRequest:
        """Read the options of the jobs."""
        request = super().checked(request)
        own = ("output_limit_bytes", "measuring", "leave_out", "summary", "counters")
        launch = {name: value for name, value in request.options.items() if name in own}
        jobs = {name: value for name, value in request.options.items() if name not in launch}
        return request.changed(on=slurm_of(request.on).changed(**jobs), options=launch)

    def run(self, request: RunRequest) -> Run:
        """Find or submit the job, and wait for it."""
        from labkit.real.slurm.submit import submit_and_wait

        return submit_and_wait(request)

    def together(self, requests: Sequence[RunRequest]) -> AbstractContextManager[Callable[[RunRequest], Run]]:
        """Submit all of them before the first one is waited for."""
        from labkit.real.slurm.submit import submitted

        return submitted(requests)

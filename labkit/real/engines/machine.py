"""Running MPI engines as a machine: ``on=labkit.cluster(4)``, or what ipyparallel itself has of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labkit.errors import MachineError
from labkit.real.engines.target import is_cluster
from labkit.request import Machine, RunRequest

if TYPE_CHECKING:
    from labkit.result import Run

__all__ = ["Engines"]


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
        As of `labkit.real.mpi.machine.RealMpi`.
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

    def size(self, on: Any) -> int | None:
        """Return the number of its engines."""
        from labkit.real.engines.target import find_target

        return None if isinstance(on, str) else len(find_target(on).engines)

    def checked(self, request: RunRequest) -> RunRequest:
        """Refuse a cluster that is only named."""
        if isinstance(request.on, str):
            raise MachineError(
                f"on={request.on!r}: a cluster of engines is given as an object: start one with "
                "labkit.cluster(4), or pass a Cluster, Client or DirectView of ipyparallel; without one use "
                'on="mpi"'
            )
        return super().checked(request)

    def run(self, request: RunRequest) -> Run:
        """Send every engine its part, and bring everything back."""
        from labkit.real.engines.client import run_on_engines

        return run_on_engines(request)

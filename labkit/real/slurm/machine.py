"""Batch jobs of Slurm as a machine: ``on="slurm"``, ``"slurm:PROFILE"``, or a `labkit.slurm`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from labkit.real.slurm.options import Slurm, is_slurm, slurm_of
from labkit.request import Machine, RunRequest

if TYPE_CHECKING:
    from labkit.result import Run

__all__ = ["SlurmCluster"]


class SlurmCluster(Machine):
    """A batch job for a run, which is waited for; all runs of a sweep are submitted before the first is.

    The program travels by value in a file; a script has to lie where the compute nodes can read it. The time
    limit is that of the launch inside the job: the wait in the queue does not count. Its options, in
    addition to those of every machine, are those of `labkit.slurm`, over those of `on`, and

    leave_out : str or sequence of str
        As of `labkit.real.mpi.machine.RealMpi`.
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

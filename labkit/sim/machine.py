"""The simulated machine: any platform, of any size, in this process; a script in a process of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.errors import DataError, MachineError, echoed
from labkit.request import Machine, RunRequest, refuse_for_functions
from labkit.result import Run, median_run

if TYPE_CHECKING:
    from labkit.platform.platform import Platform

__all__ = ["Simulated", "platform_for"]

#: each simulated rank needs some ten kilobytes of memory
MOST_RANKS = 1 << 20


class Simulated(Machine):
    """Ranks as greenlets over the engine; what names no other machine is a platform.

    Its options, beside those of every machine, for scripts:

    stdin : str or file
        What rank 0 reads from standard input: a text, an open file or its descriptor. Default: nothing.
    stream : bool
        Write what the ranks print to this process's standard output and error, as it comes; nothing of it is
        kept in `Run.output`.
    warnings : bool
        Whether the notes name what fails on real MPI (`labkit.sim.runner`): sends that rely on buffers,
        messages that are never received, and more. Default: True.
        Of functions, too.
    summary : bool
        Sum each rank's time, calls and messages up by call path while the program runs, and keep no event:
        `Run.profile` then needs no trace. No time changes. Of functions, too.
    leave_out : str, path or sequence of str
        With ``trace=True`` or ``summary=True``: phases, and functions of `regions`, in which nothing is
        recorded (``*`` stands for anything), or a filter file, as `Run.score` writes it. No time changes;
        what is called there counts as computation, as on real MPI. Of functions, too.
    explore : int
        Run the program so often again, in other legal orders of its messages, and say what then differs
        (`labkit.sim.explore`): `Run.exploration`, and among the notes. Of functions, too.
    check : bool
        Look at buffers that are changed or used twice before their Wait, at datatypes of both ends, at
        requests that are never waited for, and say at which lines (`labkit.sim.checking`).
    shape : str
        The block of hosts of a torus that the run gets as a torus of its own: its sides, ``"4x4x2"``,
        ``"compact"`` (the smallest that holds the ranks; the default of Blue Genes) or ``"whole"``. Of
        functions, too.
    start : mapping
        How Python starts the script: ``module``, its name behind ``-m``, or ``"-c"``; ``rc``, settings of
        mpi4py.rc; ``pool``, whether the ranks besides 0 are workers, as with ``-m mpi4py.futures``.
    """

    name = "a simulated run"
    is_real = False
    options = (
        "storage", "stdin", "stream", "start", "explore", "check", "summary", "shape", "warnings",
        "leave_out",
    )  # fmt: skip

    def owns(self, on: Any) -> bool:
        """Whether it is a platform: nobody else's, then."""
        return True

    def size(self, on: Any) -> int | None:
        """Return the number of a platform's cores; None for one that grows with the ranks."""
        from labkit.platform import platform

        return platform(on).capacity

    def checked(self, request: RunRequest) -> RunRequest:
        """Read platform, mapping, calibration, noise and computation, before anything runs."""
        from labkit.platform.noise import noise_of
        from labkit.platform.storage import storage_of
        from labkit.selector import selector_of
        from labkit.sim.explore import check_tries
        from labkit.sim.measured import measured_of

        if request.options.get("counters"):
            raise MachineError(
                f"counters are of a host that runs the ranks, and {self.name} has none: run it with "
                'on="mpi", or leave counters out; count=True counts messages, comparisons and memory here'
            )
        if request.options.get("leave_out") and not (request.trace or request.options.get("summary")):
            raise MachineError("leave_out says what trace=True or summary=True does not record; give both")
        request = super().checked(request)
        refuse_for_functions(request)
        if request.ranks > MOST_RANKS:
            raise MachineError(
                f"{self.name} has at most {MOST_RANKS:,} ranks, got {echoed(f'{request.ranks:,}')}"
            )
        on = platform_for(
            request.on, request.ranks, request.model, request.mapping, request.options.get("shape")
        )
        return request.changed(
            on=on, mapping=None, coll=selector_of(request.coll),
            calibration=on.kernel_costs(request.calibration), noise=noise_of(request.noise),
            compute=measured_of("charged" if request.compute is None else request.compute),
            options={
                **request.options,
                "storage": storage_of(request.options.get("storage")),
                "explore": check_tries(request.options.get("explore", 0)),
            },
        )  # fmt: skip

    def run(self, request: RunRequest) -> Run:
        """Simulate: deterministic, so that repetitions differ only in the seed."""
        if isinstance(request.program, Path):
            return self._kept(request)
        seeds = range(request.seed, request.seed + request.repeats)
        return median_run([self._kept(request.changed(seed=seed)) for seed in seeds])

    def _kept(self, request: RunRequest) -> Run:
        """Simulate once, or in other orders besides."""
        if request.options["explore"]:
            from labkit.sim.explore import explore

            return explore(request, self._recorded)
        return self._recorded(request)

    def _recorded(self, request: RunRequest) -> Run:
        """Simulate once, with computation as it was recorded, where it is kept."""
        measured = request.compute
        records = measured.records
        if records is None:
            return self._once(request)
        from labkit.sim.measured import NOTE, RECORDED

        key = records.key(request)
        found = records.find(key)
        scale = measured.scale if found is None else found.scale
        run = self._once(request.changed(compute=replace(measured, scale=scale, records=None, replay=found)))
        if found is None and run.computation is not None:
            try:
                records.keep(key, run.computation)
                run.notes = [RECORDED if note == NOTE else note for note in run.notes]
            except DataError as error:  # the run is there all the same
                run.notes.append(f"{NOTE}; it was not kept: {error}")
        run.machine["is_recorded"] = True
        return run

    def _once(self, request: RunRequest) -> Run:
        if isinstance(request.program, Path):
            from labkit.sim.script import simulate_script

            return simulate_script(request)
        from labkit.sim.runner import simulate

        return simulate(request)


def platform_for(on: Any, ranks: int, model: Any = None, mapping: Any = None, shape: Any = None) -> Platform:
    """Refuse a platform that is not known or too small, a model, mapping or shape that is not known."""
    from labkit.platform import models, platform

    machine = platform(on).mapped(mapping).shaped(shape).allocated(ranks)
    machine.rank_hosts(ranks)
    if model is not None:
        models.get(model)
    return machine

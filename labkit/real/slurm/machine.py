"""Run a program on a cluster under Slurm: pack it, find or submit its job, wait for it."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labkit.checks import check_limit, check_program, check_ranks, check_repeats, program_name
from labkit.errors import MachineError
from labkit.process.tree import JOB_VARIABLE
from labkit.real.mpi.machine import OUTPUT_LIMIT_BYTES, pack_job, recording_for
from labkit.real.slurm.batch import Batch, Point
from labkit.real.slurm.fingerprint import fingerprint
from labkit.real.slurm.options import Slurm, slurm_of
from labkit.real.slurm.watch import Line, WaitError
from labkit.result import Run

__all__ = ["make_point", "run_slurm"]

#: options that decide about what is measured: jobs that differ in them are not the same
_MATTERS = (
    "partition", "nodes", "ranks_per_node", "cpus_per_rank", "mem", "constraint", "exclusive", "extra",
    "modules", "setup", "launcher", "mpi", "python",
)  # fmt: skip


def run_slurm(
    program: Callable[..., Any] | str | os.PathLike[str],
    ranks: int,
    on: Any = "slurm",
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    trace: bool = False,
    timeout_s: float | None = 60.0,
    seed: int = 0,
    repeats: int = 1,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    trace_ti: str | os.PathLike[str] | None = None,
    compute: str | None = None,
    **options: Any,
) -> Run:
    """Run a program as a batch job of Slurm, and wait for it.

    Interrupted, the job goes on: the same call finds it again, also in a new session, as long as its result
    was not handed out (with a `name`, also after that).

    Parameters
    ----------
    program : callable or path
        ``program(comm, *args, **kwargs)``, which travels by value in a file, or the path of an mpi4py script
        that the compute nodes can read.
    ranks : int
        Number of ranks.
    on : Slurm or str
        The cluster: an object of `labkit.slurm`, or its text.
    args, kwargs
        Arguments after the communicator; for a script `args` is its command line.
    trace : bool
        Real runs record phases only; True adds a note that says so.
    timeout_s : float or None
        Limit in seconds for the launch inside the job; the wait in the queue does not count.
    seed : int
        Seeds ``random`` and ``numpy.random`` of each rank.
    repeats : int
        Runs the program so often inside one launch.
    output_limit_bytes : int
        What all ranks together may print.
    trace_ti, compute
        Write what each rank calls, as a time-independent trace: as in `labkit.real.mpi.machine.run_mpi`.
    **options
        Options of `labkit.slurm`, over those of `on`.

    Returns
    -------
    Run
        With ``on="slurm"``; its machine says cluster, partition, nodes and job.

    Raises
    ------
    ProgramError
        The program cannot be called so, or cannot travel.
    MachineError
        There is no Slurm; the job was rejected, cancelled, lost; its nodes cannot run it.
    RankError
        A rank raised, exited, was killed, or returned something that cannot be sent back.
    TimeLimitError
        A limit was reached: `timeout_s`, the job's, or that of the wait.
    """
    cluster = slurm_of(on).changed(**options)
    recording = recording_for(trace_ti, compute, repeats)
    point = make_point(
        program, ranks, cluster, args=args, kwargs=kwargs, trace=trace, timeout_s=timeout_s, seed=seed,
        repeats=repeats, output_limit_bytes=output_limit_bytes,
        recording=recording.header() if recording else None,
    )  # fmt: skip
    batch = Batch(cluster, Line())
    batch.submit([point])
    try:
        run = batch.result(point, recording)
    except KeyboardInterrupt:
        print(f"\n{batch.farewell()}", file=sys.stderr, flush=True)
        raise
    except WaitError:
        raise
    except Exception:
        batch.finish()  # a failure has been told: the same call then tries anew
        raise
    batch.finish()
    return run


def make_point(
    program: Callable[..., Any] | str | os.PathLike[str],
    ranks: int,
    cluster: Slurm,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    trace: bool = False,
    timeout_s: float | None = 60.0,
    seed: int = 0,
    repeats: int = 1,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    recording: dict[str, Any] | None = None,
) -> Point:
    """Check and pack what one launch needs, and name it by its content; see `run_slurm`."""
    kwargs = dict(kwargs or {})
    check_ranks(ranks)
    check_limit(timeout_s)
    check_repeats(repeats)
    cluster.node_count(int(ranks))
    if os.environ.get(JOB_VARIABLE):
        raise MachineError("this process is itself a rank of a run, and cannot submit jobs")
    program = check_program(program, args, kwargs)
    header, payload = pack_job(program, args, kwargs, repeats)
    header |= {"ranks": int(ranks), "seed": int(seed), "repeats": int(repeats)}
    if recording is not None:
        header["recording"] = recording
    what: Any = program
    if isinstance(program, Path):
        what = digest = hashlib.sha256(program.read_bytes()).hexdigest()
        header |= {"script": str(program.resolve()), "digest": digest}
    matters = {name: getattr(cluster, name) for name in _MATTERS}
    if recording is not None:
        matters["recording"] = recording
    name = program_name(program)
    key = fingerprint(
        name,
        what,
        list(args),
        kwargs,
        int(ranks),
        int(seed),
        int(repeats),
        timeout_s,
        output_limit_bytes,
        matters,
    )
    values = ", ".join(f"{word}={value!r:.40}" for word, value in kwargs.items())
    return Point(
        key, name, int(ranks), int(repeats), timeout_s, output_limit_bytes, trace, header, payload,
        f"{name}, {ranks} ranks" + (f", {values}" if values else ""),
    )  # fmt: skip

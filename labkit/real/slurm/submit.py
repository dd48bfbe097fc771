"""Runs as batch jobs: packed, found in earlier jobs or submitted, and waited for."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from labkit.errors import MachineError
from labkit.process.fingerprint import fingerprint
from labkit.process.imports import program_digests
from labkit.process.tree import JOB_VARIABLE
from labkit.process.versions import labkit_digest
from labkit.real.mpi.client import OUTPUT_LIMIT_BYTES, pack_launch
from labkit.real.shares import recorded_header, recording_for
from labkit.real.slurm.batch import Batch, Point
from labkit.real.slurm.options import Slurm
from labkit.real.slurm.watch import Line, WaitError
from labkit.request import RunRequest
from labkit.result import Run

__all__ = ["make_point", "submit_and_wait", "submitted"]

#: options that decide about what is measured: jobs that differ in them are not the same
_MATTERS = (
    "partition", "nodes", "ranks_per_node", "cpus_per_rank", "mem", "constraint", "exclusive", "extra",
    "modules", "setup", "launcher", "mpi", "python",
)  # fmt: skip


def submit_and_wait(request: RunRequest) -> Run:
    """Run a program as a batch job of Slurm; see `labkit.run`.

    Interrupted, the job goes on: the same call finds it again, also in a new session, as long as its result
    was not handed out (with a `name`, also after that).

    Parameters
    ----------
    request : RunRequest
        As `labkit.real.slurm.machine.SlurmCluster.checked` returned it: its `on` has all options of the jobs.

    Raises
    ------
    ProgramError
        The program cannot travel.
    MachineError
        There is no Slurm; the job was rejected, cancelled, lost; its nodes cannot run it.
    RankError
        A rank raised, exited, was killed, or returned something that cannot be sent back.
    TimeLimitError
        A limit was reached: `timeout_s`, the job's, or that of the wait.
    """
    point = make_point(request)
    batch = Batch(request.on, Line())
    batch.submit([point])
    try:
        run = batch.result(point, recording_for(request))
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


@contextlib.contextmanager
def submitted(requests: Sequence[RunRequest]) -> Iterator[Callable[[RunRequest], Run]]:
    """Submit all of these before the first one is waited for.

    Yields
    ------
    callable
        Waits for one of them. When all went well the results count as handed out at the end; after an
        interrupt, or an error, the same requests find all of them again.
    """
    points: dict[Slurm, list[Point]] = {}
    for request in requests:
        points.setdefault(request.on, []).append(make_point(request))
    waiting: dict[str, list[tuple[Batch, Point]]] = {}
    batches: list[Batch] = []
    line = Line()
    for cluster, its_points in points.items():
        batch = Batch(cluster, line)
        batches.append(batch)
        batch.submit(its_points)
        for point in its_points:
            waiting.setdefault(point.key, []).append((batch, point))
    if found := sum(batch.found for batch in batches):
        line(f"{found} of {len(requests)} points were found in earlier jobs")
    is_open = False

    def wait(request: RunRequest) -> Run:
        nonlocal is_open
        batch, point = waiting[make_point(request).key].pop(0)
        try:
            return batch.result(point)
        except (KeyboardInterrupt, WaitError) as error:
            is_open = True
            if isinstance(error, KeyboardInterrupt):
                for one in batches:
                    print(f"\n{one.farewell()}", file=sys.stderr, flush=True)
            raise

    yield wait
    if not is_open:
        for batch in batches:
            batch.finish()


def make_point(request: RunRequest) -> Point:
    """Pack what one launch needs, and name it by its content."""
    cluster: Slurm = request.on
    cluster.node_count(request.ranks)
    if os.environ.get(JOB_VARIABLE):
        raise MachineError("this process is itself a rank of a run, and cannot submit jobs")
    header, payload = pack_launch(request)
    recorded = recorded_header(request, recording_for(request))
    header |= recorded
    matters = {name: getattr(cluster, name) for name in _MATTERS}
    matters |= recorded | {name: value for name, value in header.items() if name in ("measuring", "regions")}
    what: Any = request.program
    if isinstance(what, Path):
        path, what = what, program_digests(what)
        header |= {"script": str(path.resolve()), "digest": what[path.name]}
    limit_bytes = request.options.get("output_limit_bytes", OUTPUT_LIMIT_BYTES)
    key = fingerprint(
        request.name, what, list(request.args), dict(request.kwargs), request.ranks, request.seed,
        request.repeats, request.timeout_s, limit_bytes, matters, labkit_digest(),
    )  # fmt: skip
    values = ", ".join(f"{word}={value!r:.40}" for word, value in request.kwargs.items())
    return Point(
        key, request.name, request.ranks, request.repeats, request.timeout_s, limit_bytes, request.trace,
        header, payload, f"{request.name}, {request.ranks} ranks" + (f", {values}" if values else ""),
    )  # fmt: skip

"""Runs as batch jobs: packed, found in earlier jobs or submitted, and waited for."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit import __version__
from labkit.errors import MachineError
from labkit.process.fingerprint import fingerprint, labkit_digest
from labkit.process.imports import program_digests
from labkit.process.tree import JOB_VARIABLE
from labkit.real.mpi.client import OUTPUT_LIMIT_BYTES, pack_launch
from labkit.real.shares import recorded_header, recording_for
from labkit.real.slurm.collect import Line, WaitError, Watch, collect_point
from labkit.real.slurm.commands import SilentError, batch_script, find_by_name, job_name, submit
from labkit.real.slurm.inside import RESERVE_S
from labkit.real.slurm.options import Slurm, time_seconds
from labkit.real.slurm.store import JobFolder, find_jobs, now_text
from labkit.request import RunRequest
from labkit.result import Run

if TYPE_CHECKING:
    from labkit.trace.recorder.merge import Recording

__all__ = ["Batch", "PackedLaunch", "divide", "make_point", "submit_and_wait", "submitted"]

#: options that decide about what is measured: jobs that differ in them are not the same
_MATTERS = (
    "partition", "nodes", "ranks_per_node", "cpus_per_rank", "mem", "constraint", "exclusive", "extra",
    "modules", "setup", "launcher", "mpi", "python",
)  # fmt: skip


# Points become jobs: those that an earlier call has submitted are found again, the others are submitted.


@dataclass
class PackedLaunch:
    """One launch: a program at a number of ranks with its arguments, packed; `key` names its content."""

    key: str
    program: str
    ranks: int
    repeats: int
    timeout_s: float | None
    output_limit_bytes: int
    trace: bool
    header: dict[str, Any] = field(repr=False)
    payload: bytes = field(repr=False)
    text: str

    def record(self) -> dict[str, object]:
        """Return what ``job.json`` says about it."""
        names = ("key", "ranks", "repeats", "timeout_s", "output_limit_bytes", "trace", "text")
        return {name: getattr(self, name) for name in names}


class Batch:
    """The points of one call, and the jobs that they are in.

    `cluster`: What the jobs ask for.
    `tell`: Gets a line on how the jobs are doing.
    """

    def __init__(self, cluster: Slurm, tell: Callable[[str], None]) -> None:
        self.cluster = cluster
        self.tell = tell
        self._places: dict[int, tuple[JobFolder, int]] = {}
        self._watch: Watch | None = None
        #: how many points were found in earlier jobs
        self.found = 0

    @property
    def jobs(self) -> list[JobFolder]:
        """The jobs of this call's points."""
        return list({job.path: job for job, _ in self._places.values()}.values())

    def submit(self, points: Sequence[PackedLaunch]) -> None:
        """Find the points in earlier jobs, and submit the others.

        Raises MachineError: A folder cannot be written, or Slurm rejects a job; earlier ones of the same call
            then go on.
        """
        left = self._find(points)
        self.found = len(points) - len(left)
        for group in divide(left, self.cluster):
            try:
                self._submit_job(group)
            except MachineError as error:
                if self._places:
                    error.add_note(self.farewell())
                raise
        self._watch = Watch(self.jobs, self.tell, self.cluster.wait_s)

    def result(self, point: PackedLaunch, recording: Recording | None = None) -> Run:
        """Wait for a point's result; write its trace where it is recorded.

        Raises LabkitError: The point failed, or its job did.
        """
        assert self._watch is not None
        job, number = self._places[id(point)]
        return collect_point(job, number, self._watch.status(job, number), recording)

    def finish(self) -> None:
        """Note that the results have been handed out."""
        for job, number in self._places.values():
            job.mark_collected(number)

    def farewell(self) -> str:
        """Return as text what becomes of the jobs when they are not waited for."""
        numbers = " ".join(job.job_id or "" for job in self.jobs)
        is_one = len(self.jobs) == 1
        return (
            f"Slurm job{'' if is_one else 's'} {numbers} go{'es' if is_one else ''} on. The same call, "
            f"also in a new session, waits for {'it' if is_one else 'them'} again; `labkit slurm cancel "
            f"{numbers}` cancels {'it' if is_one else 'them'}."
        )

    # -- earlier jobs -------------------------------------------------------------------------------------

    def _find(self, points: Sequence[PackedLaunch]) -> list[PackedLaunch]:
        """Give points their places in earlier jobs, and return those that have none."""
        wanted: dict[str, list[PackedLaunch]] = {}
        for point in points:
            wanted.setdefault(point.key, []).append(point)
        for job in find_jobs(self.cluster.folder_path):
            if job.about.get("name", "") != self.cluster.name:
                continue
            fitting = [
                (number, wanted[one["key"]])
                for number, one in enumerate(job.points)
                if wanted.get(one["key"]) and self._is_usable(job, number)
            ]
            if fitting and self._is_known_to_slurm(job):
                for number, waiting in fitting:
                    if waiting:
                        self._places[id(waiting.pop(0))] = (job, number)
        return [point for point in points if id(point) not in self._places]

    def _is_usable(self, job: JobFolder, number: int) -> bool:
        """Whether nobody had this result; with a name also one that somebody had, if it is one."""
        if not job.is_collected(number):
            return True
        return bool(self.cluster.name) and job.status(number).get("state") == "done"

    def _is_known_to_slurm(self, job: JobFolder) -> bool:
        """Whether a job has a number; one whose submitting process died in between is looked for by name."""
        if job.job_id is not None:
            return True
        try:
            number = find_by_name(job_name(job.about["token"], job.about["program"]))
        except SilentError as error:
            raise MachineError(
                f"{job.path.name} may have been submitted, and Slurm does not answer ({error}); try later",
                code="scheduler-failed",
            ) from error
        if number is None:
            self._hand_in(job)
        else:
            job.write("submitted.json", {"id": number, "time": now_text()})
        return True

    # -- new jobs -----------------------------------------------------------------------------------------

    def _submit_job(self, group: list[PackedLaunch]) -> None:
        """Write a job down and hand it to Slurm."""
        seconds = self._seconds(group)
        options = self.cluster
        about = {
            "labkit": __version__,
            "python": platform.python_version(),
            "executable": sys.executable,
            "prefixes": sorted({sys.prefix, sys.base_prefix}),
            "path": _search_path(),
            "work": os.getcwd(),
            "program": group[0].program,
            "label": options.label,
            "name": options.name,
            "options": options.record(),
            "seconds": seconds,
            "time_text": options.time or (f"{-(-seconds // 60)} min" if seconds else "that of the partition"),
            "points": [point.record() for point in group],
        }
        packed = [(point.header, point.payload) for point in group]
        job = JobFolder.create(options.folder_path, about, packed)
        try:
            script = batch_script(
                options,
                job.path,
                name=job_name(job.about["token"], group[0].program),
                ranks=max(point.ranks for point in group),
                seconds=seconds,
                work=os.getcwd(),
            )
            job.write("script.sh", script)
            self._hand_in(job)
        except Exception:
            job.remove()
            raise
        for number, point in enumerate(group):
            self._places[id(point)] = (job, number)

    def _hand_in(self, job: JobFolder) -> None:
        number, cluster = submit(job.path / "script.sh", self.cluster)
        job.write("submitted.json", {"id": number, "cluster": cluster, "time": now_text()})

    def _seconds(self, group: list[PackedLaunch]) -> int | None:
        """Return the time limit of a job: as given, or what its points may take; None for the partition's."""
        if self.cluster.time is not None:
            return time_seconds(self.cluster.time)
        limits = [point.timeout_s for point in group if point.timeout_s is not None]
        return int(sum(limits) + 10 * len(group) + 60 + RESERVE_S) if len(limits) == len(group) else None


def divide(points: Sequence[PackedLaunch], cluster: Slurm) -> list[list[PackedLaunch]]:
    """Divide points into jobs: one for each number of nodes, as long as they are not too many.

    Beyond ``max_jobs`` the neighboring sizes that waste the fewest nodes share the larger allocation.
    """
    groups: dict[int, list[PackedLaunch]] = {}
    for point in points:
        groups.setdefault(cluster.node_count(point.ranks) or point.ranks, []).append(point)
    sizes = sorted(groups)
    while len(sizes) > cluster.max_jobs:
        waste = [(b - a) * len(groups[a]) for a, b in itertools.pairwise(sizes)]
        index = waste.index(min(waste))
        small = sizes.pop(index)
        groups[sizes[index]] += groups.pop(small)
    order = {id(point): place for place, point in enumerate(points)}
    return [sorted(groups[size], key=lambda point: order[id(point)]) for size in sizes]


def _search_path() -> list[str]:
    return [os.path.abspath(path) for path in sys.path]


def submit_and_wait(request: RunRequest) -> Run:
    """Run a program as a batch job of Slurm; see `labkit.run`.

    Interrupted, the job goes on: the same call finds it again, also in a new session, as long as its result
    was not handed out (with a `name`, also after that).
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
        batch.finish()  # a failure has been reported: the same call then tries again
        raise
    batch.finish()
    return run


@contextlib.contextmanager
def submitted(requests: Sequence[RunRequest]) -> Iterator[Callable[[RunRequest], Run]]:
    """Submit all of these before the first one is waited for."""
    points: dict[Slurm, list[PackedLaunch]] = {}
    for request in requests:
        points.setdefault(request.on, []).append(make_point(request))
    waiting: dict[str, list[tuple[Batch, PackedLaunch]]] = {}
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


def make_point(request: RunRequest) -> PackedLaunch:
    """Pack what one launch needs, and name it by its content."""
    cluster: Slurm = request.on
    cluster.node_count(request.ranks)
    if os.environ.get(JOB_VARIABLE):
        raise MachineError(
            "this process is itself a rank of a run, and cannot submit jobs", code="nested-run"
        )
    header, payload = pack_launch(request)
    recorded = recorded_header(request, recording_for(request))
    header |= recorded
    matters = {name: getattr(cluster, name) for name in _MATTERS}
    matters |= recorded | {name: value for name, value in header.items() if name in ("measuring", "regions")}
    what: object = request.program
    if isinstance(what, Path):
        path, what = what, program_digests(what)
        header |= {"script": str(path.resolve()), "digest": what[path.name]}
    limit_bytes = request.options.get("output_limit_bytes", OUTPUT_LIMIT_BYTES)
    key = fingerprint(
        request.name,
        what,
        list(request.args),
        dict(request.kwargs),
        request.ranks,
        request.seed,
        request.repeats,
        request.timeout_s,
        limit_bytes,
        matters,
        labkit_digest(),
    )
    values = ", ".join(f"{word}={value!r:.40}" for word, value in request.kwargs.items())
    return PackedLaunch(
        key,
        request.name,
        request.ranks,
        request.repeats,
        request.timeout_s,
        limit_bytes,
        request.trace,
        header,
        payload,
        f"{request.name}, {request.ranks} ranks" + (f", {values}" if values else ""),
    )

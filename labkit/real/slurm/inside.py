"""The main program of a batch job, on the first node of the allocation: one point after the other.

``python -m labkit.real.slurm.inside FOLDER``. A point that has ended is skipped, so that a job which Slurm
has requeued, or which was submitted again, continues where it stopped.
"""

from __future__ import annotations

import contextlib
import hashlib
import linecache
import os
import pickle
import platform
import re
import shlex
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labkit import __version__
from labkit.errors import LabkitError, MachineError, RankError, TimeLimitError
from labkit.process.tree import JOB_VARIABLE, THREADS
from labkit.real.mpi.client import ending_notes, launch_failure
from labkit.real.mpi.environment import BOOTSTRAP, root_permission, without_inherited
from labkit.real.mpi.find import Launcher, find_launcher
from labkit.real.mpi.launch import Launch, LaunchEnding
from labkit.real.mpi.waits_page import NOTE_WAITS
from labkit.real.slurm.options import Slurm
from labkit.real.slurm.store import JobFolder, now_text
from labkit.trace.recorder.merge import ask_ranks
from labkit.trace.recorder.session import SALVAGE

__all__ = ["launch_words", "main", "step_environment", "step_launcher"]


# One launch of ranks inside a batch job: the same ranks and files as on one host, over the job's nodes.


#: how long the ranks' own reports on where they are may take to reach this node
REPORT_S = 3.0


def step_launcher(options: Slurm) -> tuple[Launcher, list[str]]:
    """Find what starts the ranks on this node, and the options that the user put after its name."""
    word, *words = shlex.split(options.launcher)
    if os.path.basename(word) != "srun":
        is_plain = word in ("mpiexec", "mpirun")
        return find_launcher(options.mpi if is_plain else word), words
    found = None if options.mpi is None else find_launcher(options.mpi)  # whose library the ranks load
    return Launcher(word, "srun", (), False, found.library if found else None), words


def launch_words(launcher: Launcher, words: list[str], options: Slurm, ranks: int) -> list[str]:
    """Build the launcher's part of a command line: `ranks` processes on the first nodes of the allocation."""
    per_node = options.ranks_on_node(ranks)
    command = [launcher.path]
    if launcher.kind == "srun":
        command += ["--kill-on-bad-exit=1", "--export=ALL", "--unbuffered"]
        if per_node is not None:
            command += [f"--nodes={options.node_count(ranks)}", f"--ntasks-per-node={per_node}"]
    elif launcher.kind == "openmpi" and per_node is not None:
        command += ["--map-by", f"ppr:{per_node}:node"]
    elif launcher.kind == "mpich":
        command += ["-print-all-exitcodes", *(["-ppn", str(per_node)] if per_node is not None else [])]
    return [*command, *words, "-n", str(ranks)]


class JobLaunch(Launch):
    """A launch whose files lie in a point's folder, and whose ranks may be on other nodes.

    `launcher`: See `step_launcher`.
    `options`: Sizes.
    `folder`: The point's folder: ``job`` is there already.
    `ranks`: Number of ranks.
    `output_limit_bytes`: What all ranks together may print.
    `paths`: The ranks' search path.
    """

    look_s = 0.5

    def __init__(
        self,
        launcher: tuple[Launcher, list[str]],
        options: Slurm,
        folder: Path,
        ranks: int,
        output_limit_bytes: int,
        paths: list[str],
    ) -> None:
        super().__init__(launcher[0], ranks, {}, b"", output_limit_bytes)
        self.directory = str(folder)
        self._words, self._options, self._paths = launcher[1], options, paths
        # Waits are noted in memory that processes of one host share.
        self._header = {"waits": os.environ.get("SLURM_JOB_NUM_NODES") == "1"}

    def create(self) -> None:
        """Write down what the ranks need; their program is there already."""
        try:
            self._write("path", "\0".join(self._paths))
            if self._header["waits"]:
                self._write(NOTE_WAITS, "")
        except OSError as error:
            raise MachineError(
                f"{self.directory} cannot be written: {error}", code="unwritable-file"
            ) from error
        self._environment = step_environment(self.launcher, self._options, os.environ, self.token)

    def promise_reports(self, seconds: float | None) -> None:
        """Let every rank write down where it is after a delay: no signal reaches other nodes."""
        path = Path(self.directory, "limit")
        if seconds is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(str(time.time() + seconds), "ascii")

    def command(self) -> list[str]:
        """Return the command line that starts the ranks on the first nodes of the allocation."""
        command = launch_words(self.launcher, self._words, self._options, self.ranks)
        return [*command, sys.executable, "-c", BOOTSTRAP, self.directory]

    def ask_for_stacks(self) -> None:
        """Wait for the reports that the ranks have promised; on a node alone, ask for them."""
        if self._header["waits"]:
            super().ask_for_stacks()
            return
        until = time.monotonic() + REPORT_S
        while time.monotonic() < until and not all(
            self._stack_bytes(rank) or self.rank_file(rank, "done").exists() for rank in range(self.ranks)
        ):
            time.sleep(0.1)

    def kill(self) -> None:
        """End the ranks on this node and on all others."""
        super().kill()
        end_steps()

    def clean(self) -> None:
        """Leave the files: they are the result."""
        for path in self._shared_files():
            with contextlib.suppress(OSError):
                os.remove(path)


def end_steps() -> None:
    """Let Slurm end what a launcher has started on the job's nodes, and has not ended itself."""
    number = os.environ.get("SLURM_JOB_ID", "")
    told = _ask(["squeue", "--noheader", "--steps", "--jobs", number, "--format=%i"])
    steps = [line for line in told.split() if line.rpartition(".")[2].isdigit()]
    if steps:
        _ask(["scancel", *steps])


def _ask(command: list[str]) -> str:
    """Ask Slurm; an empty answer where it does not give one: a job has to work without."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def step_environment(
    launcher: Launcher, options: Slurm, base: Mapping[str, str], token: str
) -> dict[str, str]:
    """Build the environment of the launcher and its ranks: little, for the site knows its network better."""
    wanted: dict[str, Any] = dict.fromkeys(THREADS, str(options.cpus_per_rank or 1))
    wanted["PYTHONFAULTHANDLER"] = "1"
    if launcher.kind == "openmpi":
        wanted["OMPI_MCA_opal_signal"] = ""  # its handler would print over the stack that Python writes
        wanted |= root_permission()
    if launcher.library and "MPI4PY_MPIABI" not in base:
        wanted["MPI4PY_LIBMPI"] = launcher.library
    own = {JOB_VARIABLE: token, "LABKIT_TMPDIR": base.get("TMPDIR", "")}
    return {**wanted, **without_inherited(base), **own}


#: how Slurm says that a step was ended for the memory that it took
_MEMORY = re.compile(r"exceeded (job|step|process)? ?memory limit|oom.kill|out.of.memory", re.IGNORECASE)
#: what is kept free before Slurm's own limit, for the report and for packing the results
RESERVE_S = 20.0


def main(folder: str) -> int:
    """Run the job in `folder`; 0 unless it could not begin or write its results."""
    job = JobFolder.open(Path(folder))
    if job is None:
        print(f"{folder} holds no job of this user and this version of labkit ({__version__})")
        return 1
    try:
        launcher = _prepare(job)
    except LabkitError as error:
        sentence = f"the compute node {platform.node()} cannot run this job: {' '.join(str(error).split())}"
        print(sentence)
        job.write("refused", sentence + "\n")
        return 1
    end = _end_of_allocation(job)
    for number, point in enumerate(job.points):
        if job.status(number):
            continue
        print(f"{now_text()} point {number}: {point['text']}", flush=True)
        status = _run_point(job, number, launcher, end)
        job.write(f"points/{number}/status.json", status)
        print(f"{now_text()} point {number}: {status['state']}", flush=True)
    return 0


def _prepare(job: JobFolder) -> tuple[Launcher, list[str]]:
    """Compare this node with the process that has submitted the job, and say that it has begun."""
    theirs, mine = str(job.about["python"]), platform.python_version()
    if theirs.split(".")[:2] != mine.split(".")[:2]:
        raise MachineError(
            f"it has Python {mine} at {sys.executable}, and the program was packed by Python {theirs}, whose "
            "functions it cannot read; use the same version on both sides (python=)",
            code="version-mismatch",
        )
    if job.about["labkit"] != __version__:
        raise MachineError(
            f"it has labkit {__version__} at {sys.executable}, and the job was written by labkit "
            f"{job.about['labkit']}; install the same version on both sides",
            code="version-mismatch",
        )
    options = Slurm(**job.about["options"])
    launcher = step_launcher(options)
    environment = os.environ.get
    job.write(
        "started.json",
        {
            "id": environment("SLURM_JOB_ID"),
            "cluster": environment("SLURM_CLUSTER_NAME", ""),
            "partition": environment("SLURM_JOB_PARTITION", ""),
            "nodes": int(environment("SLURM_JOB_NUM_NODES", "1")),
            "node_list": environment("SLURM_JOB_NODELIST", ""),
            "host": platform.node(),
            "is_shared": 0 < int(environment("SLURM_CPUS_ON_NODE", "0")) < (os.cpu_count() or 1),
            "python": sys.executable,
            "mpi": launcher[0].describe(),
            "mpiexec": launcher[0].path,
            "time": now_text(),
        },
    )
    return launcher


def _run_point(
    job: JobFolder, number: int, launcher: tuple[Launcher, list[str]], end: float | None
) -> dict[str, object]:
    """Run one point, pack what its ranks left, and return its status."""
    point, folder = job.points[number], job.point(number)
    limit_s: float | None = point["timeout_s"]
    left_s = None if end is None else end - RESERVE_S - time.time()
    if left_s is not None and left_s < min(5.0, limit_s or 5.0):
        return {"state": "skipped", "error": _record(TimeLimitError(_no_time(job)))}
    is_cut = left_s is not None and (limit_s is None or left_s < limit_s)
    seconds = left_s if is_cut else limit_s
    began, ending, error = now_text(), None, None
    try:
        ending, error = _launch(job, number, launcher, seconds)
    except LabkitError as refused:
        error = refused
    except OSError as trouble:
        error = MachineError(f"{str(folder)!r} cannot be read or written: {trouble}", code="unreadable-file")
    if isinstance(error, TimeLimitError) and is_cut:
        error = TimeLimitError(f"{_no_time(job)} {error}")
    restart = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    facts: dict[str, object] = {"began": began, "ended": now_text(), "restart": restart}
    if ending is not None:
        facts |= {"host_seconds": ending.host_seconds, "notes": ending_notes(ending)}
    if error is not None:
        return {"state": "failed", "error": _record(error), **facts}
    return {"state": "done", **facts}


def _launch(
    job: JobFolder, number: int, launcher: tuple[Launcher, list[str]], seconds: float | None
) -> tuple[LaunchEnding, LabkitError | None]:
    """Start the ranks of a point, wait for their end, and pack what they left."""
    point, folder, printed_bytes = job.points[number], job.point(number), len(job.printed_bytes())
    _forget_leftovers(folder)
    is_recorded = _check_header(folder).get("recording", {}).get("has_lines", False)
    options = Slurm(**job.about["options"])
    limit_bytes = point["output_limit_bytes"]
    with JobLaunch(launcher, options, folder, point["ranks"], limit_bytes, _paths(job)) as step:
        step.promise_reports(seconds)
        if is_recorded:
            step.before_end = lambda: ask_ranks(step.directory, step.ranks, REPORT_S)
        ending = step.run(seconds)
        error = launch_failure(step, ending, seconds)
        told = step.launcher_text() + job.printed_bytes()[printed_bytes:].decode("utf-8", "replace")
    if error is not None and _MEMORY.search(told):
        error = _no_memory(job, error)
    _pack(folder)
    return ending, error


def _no_memory(job: JobFolder, error: LabkitError) -> MachineError:
    given = job.about["options"].get("mem")
    has = f"mem={given!r}" if given else "no mem= was given"
    better = MachineError(
        f"the ranks needed more memory than the job has on a node ({has}), and Slurm ended them; give more "
        f"mem=, or fewer ranks_per_node. {error}",
        code="out-of-memory",
    )
    better.attach_output(error.output)
    return better


def _no_time(job: JobFolder) -> str:
    return f"the time limit of the job ({job.about['time_text']}) was over; give more time=."


def _record(error: LabkitError) -> dict[str, object]:
    """Write an error down so that it can be raised where the job was submitted."""
    record: dict[str, object] = {"kind": type(error).__name__, "message": str(error), "code": error.code}
    if isinstance(error, RankError):
        record |= {"rank": error.rank, "traceback": error.traceback}
    return record


def _paths(job: JobFolder) -> list[str]:
    """Return the ranks' search path: that of the submitting process, or this one's and its own folders."""
    there, here = list(job.about["path"]), [path for path in sys.path if path]
    if job.about["executable"] == sys.executable:
        return there
    own = [path for path in there if not path.startswith(tuple(job.about["prefixes"]))]
    return own + [path for path in here if path not in own]


def _check_header(folder: Path) -> dict[str, Any]:
    """Refuse a script that has changed since it was submitted; and make cells' texts known to reports."""
    with open(folder / "job", "rb") as file:
        header: dict[str, Any] = pickle.load(file)
    for name, text in header["sources"].items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    if header["kind"] != "script":
        return header
    path = header["script"]
    try:
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise MachineError(
            f"the script {path!r} cannot be read on the compute node {platform.node()}: {error}; put it on a "
            "file system that the compute nodes share",
            code="unreadable-file",
        ) from error
    if digest != header["digest"]:
        raise MachineError(
            f"the script {path!r} was changed after this job was submitted; run it again", code="changed-file"
        )
    return header


def _forget_leftovers(folder: Path) -> None:
    """Remove what an interrupted attempt at this point has left."""
    for path in [*folder.glob("rank-*"), folder / "ranks.zip", folder / "launcher", folder / SALVAGE]:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _pack(folder: Path) -> None:
    """Put the ranks' files into one: file systems of clusters bear few files better than many."""
    files = sorted(path for path in folder.glob("rank-*") if path.suffix not in (".pid", ".wait"))
    part = folder / ".ranks.zip"
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for path in files:
                archive.write(path, path.name)
        os.replace(part, folder / "ranks.zip")
    except OSError:  # a full disk: the message about it needs room
        part.unlink(missing_ok=True)
        raise
    others = [folder / name for name in ("path", "limit", NOTE_WAITS, SALVAGE)]
    for path in [*folder.glob("rank-*"), *others]:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _end_of_allocation(job: JobFolder) -> float | None:
    """Find out when the allocation ends, in seconds since 1970; None without a limit."""
    told = os.environ.get("SLURM_JOB_END_TIME", "")
    if told.isdigit():
        return float(told)
    number = os.environ.get("SLURM_JOB_ID", "")
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        command = ["squeue", "--noheader", "--jobs", number, "--format=%L"]
        asked = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        left = _left_seconds(asked.stdout.strip())
        if asked.returncode == 0 and left is not None:
            return time.time() + left
    seconds = job.about["seconds"]  # Slurm does not answer here: what was asked for, from now
    return None if seconds is None else time.time() + float(seconds)


def _left_seconds(text: str) -> float | None:
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24.0 + hours) * 60 + minutes) * 60 + seconds


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""One launch of ranks inside a batch job: the same ranks and files as on one host, over the job's nodes."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labkit.errors import MachineError
from labkit.process.tree import JOB_VARIABLE
from labkit.real.mpi.environment import BOOTSTRAP, THREADS, root_permission, without_inherited
from labkit.real.mpi.find import Launcher, find_launcher
from labkit.real.mpi.launch import Launch
from labkit.real.mpi.waits_page import NOTE_WAITS
from labkit.real.slurm.options import Slurm

__all__ = ["Step", "launch_words", "step_environment", "step_launcher"]

#: how long the ranks' own reports on where they are may take to reach this node
REPORT_S = 3.0


def step_launcher(options: Slurm) -> tuple[Launcher, list[str]]:
    """Find what starts the ranks on this node, and the words that the user put behind its name."""
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


class Step(Launch):
    """A launch whose files lie in a point's folder, and whose ranks may be on other nodes.

    Parameters
    ----------
    launcher : (Launcher, list of str)
        See `step_launcher`.
    options : Slurm
        Sizes.
    folder : Path
        The point's folder: ``job`` is there already.
    ranks : int
        Number of ranks.
    output_limit_bytes : int
        What all ranks together may print.
    paths : list of str
        The ranks' search path.
    """

    look_s = 0.5

    def __init__(
        self, launcher: tuple[Launcher, list[str]], options: Slurm, folder: Path, ranks: int,
        output_limit_bytes: int, paths: list[str],
    ) -> None:  # fmt: skip
        super().__init__(launcher[0], ranks, {}, b"", output_limit_bytes)
        self.directory = str(folder)
        self._words, self._options, self._paths = launcher[1], options, paths
        # Waits are noted in memory that processes of one host share.
        self._header = {"waits": os.environ.get("SLURM_JOB_NUM_NODES") == "1"}

    def create(self) -> None:
        """Write down what the ranks have to know; their program is there already."""
        try:
            self._write("path", "\0".join(self._paths))
            if self._header["waits"]:
                self._write(NOTE_WAITS, "")
        except OSError as error:
            raise MachineError(f"{self.directory} cannot be written: {error}") from error
        self._environment = step_environment(self.launcher, self._options, os.environ, self.token)

    def promise_reports(self, seconds: float | None) -> None:
        """Let every rank write down where it is, so many seconds from now: no signal reaches other nodes."""
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

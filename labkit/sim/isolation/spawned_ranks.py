"""Ranks of scripts that are spawned while a run goes on: where they are, and what they run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from labkit import _kernels
from labkit.comm.environment import set_settings
from labkit.comm.inter.spawning import Wanted, begin_spawned
from labkit.errors import ProgramError, UnsupportedError
from labkit.process.python_line import (
    COMMAND,
    PythonLine,
    is_python,
    module_file,
    python_line,
    without_runner,
)
from labkit.sim.isolation.rank_world import OwnModules, RankWorld
from labkit.sim.script_words import ScriptStart, script_start
from labkit.sim.simulation import Simulation, running

__all__ = ["SPARE_RANKS", "SpawnedRanks"]

#: how many ranks a run of a script may spawn
SPARE_RANKS = 4096


class SpawnedRanks:
    """Starts ranks beside those that a script was started with.

    A new rank is put on one of the hosts that have the fewest ranks, in the order of the hosts, and has a
    core of its own there: it slows no other rank down. Its working directory is its parent's.

    Parameters
    ----------
    own : OwnModules
    worlds : dict of int to RankWorld
        By rank; those of spawned ranks are put here, and taken away at their ends.
    first : ScriptStart
        Of the ranks that the run began with.
    folder : Path
        Of this run: for the texts of ``-c`` programs.
    """

    def __init__(
        self, own: OwnModules, worlds: dict[int, RankWorld], first: ScriptStart, folder: Path
    ) -> None:
        self._own, self._worlds, self._first, self._folder = own, worlds, first, folder
        self._starts: dict[int, ScriptStart] = {}
        self._programs: dict[int, Callable[[], None]] = {}
        self._codes: dict[str, CodeType] = {}

    def spawn(self, name: str, wanted: list[Wanted]) -> list[int]:
        """Start ranks; their numbers in the run.

        Raises
        ------
        UnsupportedError
            A command that is no Python program, or more ranks than there is room for.
        """
        simulation = running()
        assert simulation is not None
        starts = [(one, self._start_of(name, one)) for one in wanted]
        count = sum(one.count for one in wanted)
        if count > simulation.hub.room:
            raise UnsupportedError(
                f"{name}: a simulated run has room for {SPARE_RANKS} spawned ranks, and {count} more are "
                f"asked for where {simulation.hub.room} are left; a machine with a collective network has "
                "room for none"
            )
        cwd = os.getcwd()
        first = rank = int(simulation.hub.spawn(_hosts(simulation, count)))
        simulation.output.grow(count)
        for one, start in starts:
            for _ in range(one.count):
                world = self._worlds[rank] = RankWorld(self._own, start.file, start.spec())
                self._starts[rank] = start
                self._programs[rank] = self._program(world, start, one, cwd)
                rank += 1
        return list(range(first, rank))

    def run(self, rank: int) -> None:
        """Run what a spawned rank was started for."""
        begin_spawned()
        self._programs.pop(rank)()

    def end(self, rank: int) -> None:
        """Forget a spawned rank's modules."""
        self._worlds.pop(rank, None)
        self._starts.pop(rank, None)

    def _program(self, world: RankWorld, start: ScriptStart, one: Wanted, cwd: str) -> Callable[[], None]:
        argv, path, job = [start.argv0, *map(str, start.args)], [start.folder, *sys.path[1:]], one.job
        if job is not None:  # with what its parent has changed there
            argv, path = list(sys.argv), list(sys.path)

        def program() -> None:
            sys.argv, sys.path = argv, path
            if os.getcwd() != cwd:
                os.chdir(cwd)
            if start.rc:
                set_settings(start.rc)
            if job is not None:
                job(lambda: world.load_for_workers(self._code(start)))
            else:
                exec(self._code(start), vars(world.main))

        return program

    def _code(self, start: ScriptStart) -> CodeType:
        if start.path not in self._codes:
            self._codes[start.path] = compile(start.source(), start.shown, "exec", dont_inherit=True)
        return self._codes[start.path]

    def _start_of(self, name: str, one: Wanted) -> ScriptStart:
        """Read a command line as Python does; a worker's program is its parent's."""
        if one.job is not None:
            return self._starts.get(_kernels.current_rank(), self._first)
        if not is_python(one.words):
            raise UnsupportedError(
                f"{name} of {one.words[0]!r}: ranks of a simulated run are Python programs; give "
                "sys.executable and a script, or run on real MPI (--on mpi)"
            )
        try:
            line = without_runner(python_line(one.words))
            path, start = self._file_of(line)
        except ProgramError as error:
            raise UnsupportedError(f"{name} of {' '.join(one.words)!r}: {error}") from error
        if not Path(path).is_file():
            raise FileNotFoundError(f"{name}: there is no file {path!r} in {os.getcwd()}")
        return script_start(path, line.args, start)

    def _file_of(self, line: PythonLine) -> tuple[str, Mapping[str, Any]]:
        if line.is_pool:
            raise ProgramError(
                "-m mpi4py.futures is a pool of a whole job; use MPIPoolExecutor in the program"
            )
        if line.module == COMMAND:
            path = self._folder / f"command-{_kernels.current_rank()}-{abs(hash(line.program))}.py"
            path.write_text(line.program, encoding="utf-8")
            return str(path), {"module": COMMAND, "rc": line.rc}
        if line.module:
            return str(module_file(line.module, sys.path)), {"module": line.module, "rc": line.rc}
        return line.program, {"rc": line.rc}


def _hosts(simulation: Simulation, count: int) -> list[int]:
    """Return where new ranks are put: on the hosts that have the fewest ranks that have not ended."""
    hub = simulation.hub
    used = np.zeros(hub.hosts, np.int64)
    for rank in range(hub.ranks):
        if hub.state(rank) != "finished":
            used[hub.host(rank)] += 1
    hosts = []
    for _ in range(count):
        hosts.append(int(used.argmin()))
        used[hosts[-1]] += 1
    return hosts

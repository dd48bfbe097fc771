"""A program that a plain mpiexec starts: `labkit.MPI` is real MPI there, or says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from labkit.real.mpi.environment import root_permission
from labkit.real.mpi.find import find_launcher
from tests.support.mpich import MPICH, needs_mpich

pytestmark = pytest.mark.mpi

PROGRAM = textwrap.dedent(
    """
    import labkit as lk
    from labkit import MPI

    def inside(comm):
        from labkit import MPI as again
        sizes = MPI.COMM_WORLD.size, again.COMM_WORLD.size, lk.MPI.COMM_WORLD.size
        return *sizes, comm.allreduce(1, op=MPI.SUM)

    comm = MPI.COMM_WORLD
    runs = [lk.run(inside, 3, "star").results for _ in range(2)]
    sizes = {size for run in runs for result in run for size in result}
    said = comm.gather((comm.rank, sizes, MPI.__name__, lk.MPI is MPI))
    if comm.rank == 0:
        print(said)
    """
)


def start(tmp_path, mpiexec, *words, **more):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    environment = {
        **os.environ,
        **root_permission(),
        "TMPDIR": str(tmp_path),
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    return subprocess.run(
        [str(mpiexec), "-n", "2", sys.executable, *words, str(path)], env=environment | more,
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["default", pytest.param("mpich", marks=needs_mpich)])
def test_it_is_real_mpi_in_which_ranks_may_simulate(tmp_path, name):
    launcher = find_launcher(str(MPICH) if name == "mpich" else None)
    done = start(tmp_path, launcher.path, MPI4PY_LIBMPI=launcher.library)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([(rank, {3}, "mpi4py.MPI", True) for rank in range(2)])


def test_what_a_launcher_starts_of_labkit_itself_simulates(tmp_path):
    launcher = find_launcher()
    done = start(tmp_path, launcher.path, "-m", "labkit", "run", "-n", "1", "--on", "star")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[(0, {3}, 'labkit.MPI', True)]") == 2


@needs_mpich
def test_a_launcher_of_another_mpi_is_told(tmp_path):
    done = start(tmp_path, MPICH, MPI4PY_LIBMPI=find_launcher().library)
    assert done.returncode != 0
    assert (
        "started this program on 2 ranks, and each of them is alone: the launcher and mpi4py's" in done.stderr
    )
    assert "labkit run -n 2 --on mpi starts it with the launcher that does" in done.stderr

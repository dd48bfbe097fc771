"""mpi4py's own module, imported by a program that is then simulated: no rank is alone in a world of one."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.mpi

PROGRAM = textwrap.dedent(
    """
    import sys
    try:
        import mpi4py
        from mpi4py import MPI
        from mpi4py.MPI import COMM_WORLD, DOUBLE, SUM, Status, Wtime
    except (ImportError, RuntimeError) as error:
        sys.exit(f"no MPI: {error}")
    import numpy as np
    import labkit as lk

    def named(comm):
        return MPI.COMM_WORLD.size, COMM_WORLD.rank, mpi4py.MPI.COMM_WORLD.size, comm.allreduce(1, op=MPI.SUM)

    def typed(comm):
        out, into = np.ones(2), np.zeros(2)
        comm.Allreduce([out, MPI.DOUBLE], [into, DOUBLE], op=SUM)
        status = Status()
        comm.sendrecv(None, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size, status=status)
        return into.tolist(), status.Get_source(), Wtime() < 1.0

    def inner(comm):
        from mpi4py import MPI
        import mpi4py.MPI as other
        return MPI.COMM_WORLD.allreduce(1), other.COMM_WORLD.size

    class Program:
        def __call__(self, comm):
            return MPI.COMM_WORLD.size

    assert lk.run(named, 3, "star").results == [(3, rank, 3, 3) for rank in range(3)]
    assert lk.run(typed, 3, "star").results == [([3.0, 3.0], (rank - 1) % 3, True) for rank in range(3)]
    assert lk.run(inner, 3, "star").results == [(3, 3)] * 3
    assert lk.run(Program(), 3, "star").results == [3] * 3
    assert sys.modules["mpi4py.MPI"] is MPI is mpi4py.MPI
    assert MPI.COMM_WORLD.size == 1
    """
)


def test_a_simulated_rank_gets_the_simulated_module():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=False
    )
    if done.stderr.startswith("no MPI: "):
        pytest.skip(done.stderr.splitlines()[0])
    assert (done.returncode, done.stderr) == (0, "")

"""Programs that work on real MPI: phases, output, seeds, scripts and the environment of a launch."""

from __future__ import annotations

import random

import numpy as np
import pytest

import labkit as lk
from labkit.real.context import available_cores

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("nothing_left")]


def test_oversubscribed_times_may_not_be_used():
    ranks = available_cores() + 1
    run = lk.run(lambda comm: comm.size, ranks, "mpi")
    assert run.results == [ranks] * ranks
    assert not run.is_valid
    assert "oversubscription: " in run.notes[0]


def test_nested_and_unfinished_phases():
    def program(comm):
        with lk.phase("outer"), lk.phase("inner"):
            comm.barrier()
        lk.phase("never left").__enter__()

    phases = lk.run(program, 1, "mpi").phases
    assert phases["phase"].tolist() == ["outer", "inner"]
    outer, inner = phases.iloc[0], phases.iloc[1]
    assert outer.begin_s <= inner.begin_s <= inner.end_s <= outer.end_s


def test_makespan_runs_from_the_first_entry_to_the_last_exit():
    def program(comm):
        import time

        time.sleep(0.05 * (1 + comm.rank))

    makespan_s = lk.run(program, 2, "mpi").makespan_s
    assert makespan_s >= 0.1


def test_seed_decides_the_random_numbers():
    def program(comm):
        return random.random(), np.random.random()

    one = lk.run(program, 2, "mpi", seed=1).results
    assert lk.run(program, 2, "mpi", seed=1).results == one
    assert lk.run(program, 2, "mpi", seed=2).results != one


def test_output_of_c_code_and_of_child_processes_is_caught():
    def program(comm):
        import os
        import subprocess

        os.write(1, b"raw\n")
        subprocess.run(["echo", "child", str(comm.rank)], check=True)

    assert lk.run(program, 2, "mpi").output == ["raw\nchild 0\n", "raw\nchild 1\n"]


def test_output_keeps_every_byte_that_is_text_and_marks_the_others():
    def program(comm):
        import os

        print("ä\r\n", end="", flush=True)
        os.write(1, b"\xff|")
        print("…")

    run = lk.run(program, 1, "mpi", repeats=2)
    assert [one.output for one in run.repetitions] == [["ä\r\n�|…\n"]] * 2


def test_failing_exit_handler_is_noted_but_keeps_the_results():
    def program(comm):
        import atexit
        import os

        atexit.register(os._exit, 9)
        return comm.rank

    run = lk.run(program, 1, "mpi", timeout_s=30)
    assert run.results == [0]
    assert "mpiexec ended with exit code 9" in run.notes[0]


def test_thread_that_never_ends_does_not_hold_up_the_results():
    def program(comm):
        import threading
        import time

        threading.Thread(target=time.sleep, args=(600,)).start()
        return comm.rank

    run = lk.run(program, 1, "mpi", timeout_s=60)
    assert run.results == [0]
    assert "some did not leave MPI" in run.notes[0]


def test_script_runs_unmodified(tmp_path):
    script = tmp_path / "prog.py"
    (tmp_path / "helper.py").write_text("NAME = 'helper'\n")
    script.write_text(
        "import sys\n"
        "from mpi4py import MPI\n"
        "import helper\n"
        "comm = MPI.COMM_WORLD\n"
        "if __name__ == '__main__':\n"
        "    print(comm.allreduce(comm.rank), sys.argv[1:], helper.NAME, __file__)\n"
    )
    run = lk.run(script, 3, "mpi", args=("a", "b c"))
    assert run.results == [None] * 3
    assert run.output == [f"3 ['a', 'b c'] helper {script}\n"] * 3
    assert run.program == "prog.py"


def test_script_that_configures_mpi4py_finds_mpi_not_yet_started(tmp_path):
    script = tmp_path / "prog.py"
    script.write_text(
        "import mpi4py\n"
        "mpi4py.rc.initialize = False\n"
        "from mpi4py import MPI\n"
        "assert not MPI.Is_initialized()\n"
        "MPI.Init_thread(MPI.THREAD_FUNNELED)\n"
        "print(MPI.COMM_WORLD.size, MPI.Query_thread() == MPI.THREAD_FUNNELED)\n"
        "import labkit\n"
        "assert labkit.MPI.COMM_WORLD.size == 2\n"
        "MPI.Finalize()\n"
    )
    assert lk.run(script, 2, "mpi").output == ["2 True\n"] * 2


def test_environment_of_the_program_is_the_callers(monkeypatch):
    import os

    monkeypatch.setenv("MINE", "yes")
    wanted = (os.environ["TMPDIR"], "yes", os.getcwd())

    def program(comm):
        return os.environ.get("TMPDIR"), os.environ.get("MINE"), os.getcwd()

    assert lk.run(program, 1, "mpi").results == [wanted]


def test_what_a_rank_spawns_has_real_mpi_by_either_name(tmp_path):
    parent, child = tmp_path / "parent.py", tmp_path / "child.py"
    child.write_text(
        "from labkit import MPI\n"
        "up = MPI.Comm.Get_parent()\n"
        "up.gather((MPI.__name__, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size), root=0)\n"
        "up.Disconnect()\n"
    )
    parent.write_text(
        "import sys\nfrom mpi4py import MPI\n"
        f"down = MPI.COMM_SELF.Spawn(sys.executable, args=[{str(child)!r}], maxprocs=2)\n"
        "print(down.gather(None, root=MPI.ROOT))\n"
        "down.Disconnect()\n"
    )
    run = lk.run(parent, 1, "mpi", timeout_s=60)
    assert run.output == ["[('mpi4py.MPI', 0, 2), ('mpi4py.MPI', 1, 2)]\n"]

"""%%spmd in a real kernel: the same cell on every machine, failures survived, the stop button."""

from __future__ import annotations

import pytest

pytestmark = [
    pytest.mark.mpi, pytest.mark.usefixtures("nothing_left"), pytest.mark.filterwarnings("ignore"),
]  # fmt: skip

CELL = """
mine = base + rank
total = comm.allreduce(mine)
print("rank", rank, helper(total))
if rank == 1: print("marked", file=sys.stderr)
(rank, total)"""
SET_UP = """\
%load_ext labkit
import sys, os, labkit as lk
base = 10
def helper(x): return x + size"""
SHOWN = """\
rank 0 | rank 0 50
rank 1 | rank 1 50
rank 1 ! marked
rank 2 | rank 2 50
rank 3 | rank 3 50
rank 0 = (0, 46)
rank 1 = (1, 46)
rank 2 = (2, 46)
rank 3 = (3, 46)
"""


@pytest.fixture
def notebook(kernel):
    assert kernel.run(SET_UP) == ("", "")
    assert kernel.run("import os; os.environ['LABKIT_PROGRESS'] = 'off'") == ("", "")
    return kernel


@pytest.mark.slow
def test_the_same_cell_on_every_machine_by_one_word(notebook):
    pytest.importorskip("ipyparallel")
    for machine in ("torus:2x2", "mpi", "cluster"):
        text, error = notebook.run(f"%%spmd -n 4 --on {machine} --timeout 50" + CELL, timeout=120)
        assert error == ""
        assert SHOWN in text, machine
        assert notebook.run("_spmd.values['mine'], _spmd.on") == (
            f"([10, 11, 12, 13], {machine!r})\n", "",
        )  # fmt: skip
    assert notebook.run("%unload_ext labkit") == ("", "")


@pytest.mark.slow
def test_a_cluster_of_four_engines_survives_what_cells_do(notebook):
    pytest.importorskip("ipyparallel")

    def next_cell_runs():
        text, error = notebook.run("%%spmd\ncomm.allreduce(rank)")
        assert (error, "ranks 0-3 = 6" in text) == ("", True), text

    notebook.run("engines = lk.cluster(4, restart=True)\n%spmd -n 4 --on engines --timeout 40", timeout=120)
    next_cell_runs()
    _, error = notebook.run("%%spmd\nif rank == 2:\n    raise ValueError('alone')")
    assert "rank 2 failed: ValueError: alone" in error
    next_cell_runs()
    _, error = notebook.run("%%spmd\nif rank == 1:\n    raise ValueError('others wait')\ncomm.Barrier()")
    assert "rank 1 failed: ValueError: others wait" in error
    assert "raise ValueError('others wait')" in error
    next_cell_runs()
    _, error = notebook.run("%%spmd --timeout 2\nwhile rank == 3:\n    pass\ncomm.Barrier()")
    assert "did not end within 2 s" in error
    assert "while rank == 3" in error
    next_cell_runs()
    _, error = notebook.run("%%spmd\nif rank == 3: os.kill(os.getpid(), 9)\ncomm.Barrier()")
    assert "died" in error or "rank 3 was ended by signal 9 (SIGKILL)" in error
    text, error = notebook.run("%%spmd\ncomm.allreduce(rank)", timeout=150)
    assert error == ""
    assert "starting all of them again" in text
    assert "ranks 0-3 = 6" in text
    assert notebook.run("engines.stop()") == ("", "")


ENDLESS = "\nif rank == 0:\n    open({there!r}, 'w').close()\nwhile True: pass"


@pytest.mark.parametrize("machine", ["torus:2x2", "mpi", pytest.param("engines", marks=pytest.mark.slow)])
def test_the_stop_button_ends_a_cell_and_the_kernel_goes_on(notebook, tmp_path, machine):
    there = tmp_path / "there"
    if machine == "engines":
        pytest.importorskip("ipyparallel")
        notebook.run("engines = lk.cluster(2)", timeout=120)
    notebook.start(f"%%spmd -n 2 --on {machine} --timeout none" + ENDLESS.format(there=str(there)))
    assert notebook.stop_once(there)["ename"] == "RunInterrupted"
    text, error = notebook.run(f"%%spmd -n 2 --on {machine}\ncomm.allreduce(1)")
    assert (error, "ranks 0-1 = 2" in text) == ("", True)
    if machine == "engines":
        notebook.run("engines.stop()")


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_stop_button_ends_a_sweep_and_keeps_what_is_done(notebook, tmp_path, jobs):
    there = tmp_path / "there"
    notebook.run(f"def program(comm, n):\n    while n == 3:\n        open({str(there)!r}, 'w').close()\n")
    notebook.start(
        f"study = lk.sweep(program, 2, n=[1, 2, 3, 4, 5], repeats=1, timeout_s=None, jobs={jobs})\n"
    )
    assert notebook.stop_once(there)["status"] == "ok"
    text, error = notebook.run("print(set(study.data['n']) <= {1, 2, 4, 5}, len(study) > 0, study)")
    assert error == ""
    assert text.startswith("True True Study")
    assert "interrupted by the user" in text
    assert "n=3" in text


def test_a_sweep_over_processes_takes_the_notebooks_functions(notebook):
    text, error = notebook.run(
        "import enum\nclass Color(enum.Enum):\n    RED = 1\nscale = [3]\n"
        "def program(comm, n):\n"
        "    lk.compute(seconds=n * scale[0])\n"
        "    assert comm.bcast(Color.RED) is Color.RED\n"
        "def mine(run): return {'twice_s': 2 * run.makespan_s}\n"
        "one = lk.sweep(program, [2, 4], n=[1, 2], measure=mine, on=lambda p: f'star:{2 * p}')\n"
        "two = lk.sweep(program, [2, 4], n=[1, 2], measure=mine, on=lambda p: f'star:{2 * p}', jobs=2)\n"
        "print(one.data.equals(two.data), one.notes == two.notes, (one.data['metric'] == 'twice_s').sum())"
    )
    assert error == ""
    assert "True True 4" in text
    assert "IProgress" not in text

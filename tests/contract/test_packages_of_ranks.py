"""What installed packages keep in their modules is each rank's own, or the run says that it was shared."""

from __future__ import annotations

import os
import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd

import labkit as lk

PACKAGE = """
LEVEL, COUNT, cache = 0, 0, {}
class Config:
    value = 0
def bump():
    global COUNT
    COUNT += 1
def count():
    return COUNT
"""
OWN = """
import matplotlib; matplotlib.use("Agg")
import matplotlib.pyplot as plt, numpy as np, pandas as pd
import stateful
from mpi4py import MPI
comm = MPI.COMM_WORLD; rank = comm.rank
plt.plot([0, rank]); comm.barrier()
assert len(plt.gca().lines) == 1 and plt.get_fignums() == [1]
plt.rcParams["lines.linewidth"] = rank; comm.barrier()
with plt.rc_context({"lines.linewidth": 100 + rank}):
    comm.barrier(); assert plt.rcParams["lines.linewidth"] == 100 + rank
comm.barrier(); assert plt.rcParams["lines.linewidth"] == rank
pd.set_option("display.max_rows", rank); pd.options.display.width = 50 + rank
with pd.option_context("display.precision", rank):
    comm.barrier(); assert pd.get_option("display.precision") == rank
comm.barrier(); assert (pd.options.display.max_rows, pd.options.display.width) == (rank, 50 + rank)
np.set_printoptions(precision=rank); comm.barrier(); assert np.get_printoptions()["precision"] == rank
stateful.LEVEL = rank; comm.barrier(); assert stateful.LEVEL == rank
for _ in range(rank + 1): stateful.bump()
comm.barrier(); assert stateful.count() == stateful.COUNT == rank + 1
stateful.LEVEL = None if rank == 1 else rank; comm.barrier()
assert stateful.LEVEL == (None if rank == 1 else rank)
"""
LATE = """
import late
from mpi4py import MPI
comm = MPI.COMM_WORLD
for turn in range(comm.size):
    if comm.rank == turn:
        import late.part
        assert late.part.SIZE == late.helper() == 3
    comm.barrier()
"""
SHARED = "import stateful\nstateful.cache[1] = stateful.Config.value = 1\n"


def run_with_package(tmp_path, body):
    installed = tmp_path / "site-packages"
    installed.mkdir(exist_ok=True)
    (installed / "stateful.py").write_text(PACKAGE)
    (installed / "late").mkdir(exist_ok=True)
    (installed / "late" / "__init__.py").write_text("def helper():\n    return part.SIZE\n")
    (installed / "late" / "part.py").write_text("SIZE = 3\n")
    (tmp_path / "prog.py").write_text(body)
    return subprocess.run(
        [sys.executable, "-m", "labkit", "run", "-n", "3", "prog.py"],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )  # fmt: skip


def test_scripts(tmp_path):
    done = run_with_package(tmp_path, OWN)
    assert done.returncode == 0, done.stderr
    assert "note" not in done.stderr
    done = run_with_package(tmp_path, SHARED)
    assert done.returncode == 0, done.stderr
    assert "'stateful' keeps in stateful.cache, stateful.Config.value" in done.stderr


def test_a_submodule_that_one_rank_imports_first(tmp_path):
    done = run_with_package(tmp_path, LATE)
    assert done.returncode == 0, done.stderr


TESTS = {
    "conftest.py": """
import pytest
from mpi4py import MPI
RANK = MPI.COMM_WORLD.rank
@pytest.fixture
def expected():
    return RANK
def pytest_report_header(config):
    return f"header of rank {RANK}"
""",
    "inner/conftest.py": "import pytest\n@pytest.fixture\ndef inner():\n    return 7\n",
    "inner/test_inner.py": "def test_inner(inner, expected):\n    assert inner == 7 > expected\n",
    "helper.py": "from mpi4py import MPI\nR = MPI.COMM_WORLD.rank\n",
    "test_outer.py": """
from mpi4py import MPI
import helper
comm = MPI.COMM_WORLD
rank, seen = comm.rank, []
def test_ranks(expected):
    comm.Barrier()
    seen.append(rank)
    comm.Barrier()
    assert seen == [rank] and rank == expected == helper.R
    assert comm.allgather(rank) == list(range(comm.size))
""",
}


def test_pytest_gives_each_rank_its_own_test_modules(tmp_path):
    for name, text in TESTS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    options = ["-v", "-p", "no:cacheprovider", "-W", "ignore", "."]

    def call():
        command = [sys.executable, "-m", "labkit", "run", "-n", "3", "-m", "pytest", *options]
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path, env=environment
        )

    done = call()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("2 passed") == 3
    assert all(f"header of rank {rank}" in done.stdout for rank in range(3))
    (tmp_path / "test_broken.py").write_text("from mpi4py import MPI\nimport no_such_module\n")
    done = call()
    assert done.returncode == 1
    assert "left with exit code 2\n" in done.stderr
    assert "DependsOnRank" not in done.stdout + done.stderr


def test_what_pip_puts_into_a_folder_is_installed(tmp_path):
    for folder in ("target", "sources"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"of_{folder}.py").write_text("seen = []\n")
    (tmp_path / "target" / "of_target-1.0.dist-info").mkdir()
    (tmp_path / "prog.py").write_text(
        "from mpi4py import MPI\nimport of_target, of_sources\ncomm = MPI.COMM_WORLD\n"
        "of_target.seen.append(comm.rank); of_sources.seen.append(comm.rank); comm.barrier()\n"
        "assert of_sources.seen == [comm.rank] and len(of_target.seen) == 3\n"
    )
    searched = os.pathsep.join(str(tmp_path / folder) for folder in ("target", "sources"))
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "run", "-n", "3", "prog.py"],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": searched},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "'of_target' keeps in of_target.seen" in done.stderr


def test_functions():
    mpl.use("Agg")
    outside = plt.figure()
    before = plt.rcParams["lines.linewidth"], pd.get_option("display.max_rows")

    def program(comm):
        plt.plot([0, comm.rank])
        plt.rcParams["lines.linewidth"] = comm.rank
        pd.set_option("display.max_rows", comm.rank)
        comm.barrier()
        return len(plt.gca().lines), plt.rcParams["lines.linewidth"], pd.get_option("display.max_rows")

    try:
        assert lk.run(program, 3, "star").results == [(1, rank, rank) for rank in range(3)]
        assert (plt.rcParams["lines.linewidth"], pd.get_option("display.max_rows")) == before
        assert len(plt.get_fignums()) == 4  # the ranks' are shown beside the caller's
        assert not outside.axes
    finally:
        plt.close("all")


IN_A_NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("import matplotlib.pyplot as plt, labkit as lk")
shell.run_cell("def f(comm):\\n    plt.plot([1, 2])\\nrun = lk.run(f, 2)")
print(shell.user_ns["plt"].isinteractive())
"""


def test_a_figure_that_a_rank_returns_is_shown_once():
    plt.close("all")
    lines = lk.run(lambda comm: plt.plot([0, comm.rank])[0], 2).results
    assert [plt.figure(number) for number in plt.get_fignums()] == [line.figure for line in lines]
    plt.close("all")


def test_figures_of_ranks_leave_a_notebook_its_own():
    environment = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    done = subprocess.run(
        [sys.executable, "-c", IN_A_NOTEBOOK], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.count("<Figure size") == 2
    assert done.stdout.endswith("True\n")

"""Ranks of a script are as separate as processes: what one of them changes, no other sees."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

MACHINES = ["star", pytest.param("mpi", marks=pytest.mark.mpi)]
HEAD = "import os, sys\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\nrank = comm.rank\n"


@pytest.fixture
def labkit(tmp_path):
    def call(body, *words, on="star", ranks=3, stdin="", behind=("prog.py",), **environment):
        (tmp_path / "prog.py").write_text(HEAD + body)
        command = [sys.executable, "-m", "labkit", "run", "-n", str(ranks), "--on", on, *words, *behind]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
            env={**os.environ, **environment},
        )  # fmt: skip

    return call


REDUCERS = """
import copyreg, pickle, types
def reduced(method): return getattr, (method.__self__, method.__name__)
def joined(stop): return stop, rank
def split(value): return joined, (value.stop,)
copyreg.pickle(types.MethodType, reduced)
if rank < 2: copyreg.pickle(range, split)
comm.barrier()
class Own:
    def number(self): return rank
methods = comm.allgather(Own().number)
assert [method() for method in methods] == [rank] * comm.size
assert pickle.loads(pickle.dumps(range(5))) == ((5, rank) if rank < 2 else range(5))
if rank == 0: import registering
comm.barrier()
import registering; assert copyreg.dispatch_table[memoryview] is registering.view
"""
STATE = """
sys.path.append("elsewhere")
import outside, package
assert outside.rank == rank == package.rank
os.makedirs(f"d{rank}"); os.chdir(f"d{rank}")
os.environ["MINE"] = str(rank)
sys.setrecursionlimit(2000 + rank)
sys.argv.append(rank)
os.umask(0o20 + rank)
comm.barrier()
assert os.path.basename(os.getcwd()) == f"d{rank}"
assert os.environ["MINE"] == str(rank) == os.environ["OMPI_COMM_WORLD_RANK"]
import subprocess
assert subprocess.run("echo $MINE", shell=True, capture_output=True, text=True).stdout == f"{rank}\\n"
assert sys.getrecursionlimit() == 2000 + rank
assert sys.argv[1:] == [rank]
assert os.umask(0) == 0o20 + rank
assert len(set(comm.allgather(os.getpid()))) == comm.size
import logging
logging.basicConfig(format=f"{rank} says %(message)s", stream=sys.stdout)
comm.barrier()
logging.warning("so")
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()) as kept:
    print("hidden"); comm.barrier(); print(rank)
assert kept.getvalue() == f"hidden\\n{rank}\\n"
sys.stdout.reconfigure(line_buffering=True)
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always"); comm.barrier(); warnings.warn(f"of {rank}"); comm.barrier()
assert [str(one.message) for one in caught] == [f"of {rank}"]
import atexit
atexit.register(lambda: print("ends", comm.allreduce(1)))
"""


@pytest.mark.parametrize("on", MACHINES)
def test_what_a_process_has(labkit, tmp_path, on):
    for name in ("elsewhere", "searched/package"):
        (tmp_path / name).mkdir(parents=True)
    text = "from mpi4py import MPI\nrank = MPI.COMM_WORLD.Get_rank()\n"
    (tmp_path / "elsewhere/outside.py").write_text(text)
    (tmp_path / "searched/package/inner.py").write_text(text)
    (tmp_path / "searched/package/__init__.py").write_text("from .inner import rank\n")
    done = labkit(STATE, on=on, PYTHONPATH=str(tmp_path / "searched"))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted([f"{r} says so" for r in range(3)] + ["ends 3"] * 3)


@pytest.mark.parametrize("on", MACHINES)
def test_each_rank_pickles_by_what_it_has_registered(labkit, tmp_path, on):
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "registering.py").write_text(
        "import copyreg\ndef view(value):\n    return bytes, (value.tobytes(),)\n"
        "copyreg.pickle(memoryview, view)\n"
    )
    done = labkit(REDUCERS, on=on, PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr


PLUGGED = """
import importlib, host
plugin = host.plugged()
assert plugin is importlib.import_module("plugin") and plugin.RANK == rank, plugin.RANK
"""


@pytest.mark.parametrize("on", MACHINES)
def test_an_installed_package_finds_what_is_the_users_own_while_it_runs(labkit, tmp_path, on):
    """As setuptools does: it loads commands by name, and tries an import that a user's file may answer."""
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "host.py").write_text(
        "import importlib\ndef plugged():\n    return importlib.import_module('plugin')\n"
    )
    (installed / "plugin.py").write_text("import mine\nRANK = mine.rank\n")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/mine.py").write_text("from mpi4py import MPI\nrank = MPI.COMM_WORLD.Get_rank()\n")
    done = labkit(PLUGGED, on=on, PYTHONPATH=os.pathsep.join(map(str, (installed, tmp_path / "own"))))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_random_numbers_of_scipy_are_the_ranks_own(labkit):
    done = labkit(
        "import numpy as np, scipy.stats\nnp.random.seed(rank)\n"
        "first = scipy.stats.norm.rvs(size=2); comm.barrier(); then = scipy.stats.norm.rvs(size=2)\n"
        "assert (np.r_[first, then] == np.random.RandomState(rank).normal(size=4)).all()\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("on", MACHINES)
def test_rank_0_reads_standard_input(labkit, on):
    body = "print(input('? ') + sys.stdin.read() if rank == 0 else repr(sys.stdin.read()))\n"
    done = labkit(body, on=on, stdin="7\nmore\n")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(["? 7more", "", "''", "''"])


@pytest.mark.parametrize("on", MACHINES)
def test_threads_know_whose_they_are(labkit, on):
    body = """
from concurrent.futures import ThreadPoolExecutor
part = comm.Split(rank // 2, -rank)
def work(n):
    return n * comm.rank + comm.Get_size(), part.rank, MPI.COMM_SELF.size
with ThreadPoolExecutor(2) as pool:
    print(rank, *pool.map(work, range(2)))
os.chdir("/")
print(os.path.isabs(__file__))
"""
    done = labkit(body, on=on)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "0 (3, 1, 1) (3, 1, 1)", "1 (3, 0, 1) (4, 0, 1)", "2 (3, 0, 1) (5, 0, 1)", *["True"] * 3
    ]  # fmt: skip


@pytest.mark.parametrize("on", MACHINES)
def test_processes_and_event_loops_of_a_rank(labkit, on):
    body = """
import asyncio, multiprocessing
def double(n):
    return 2 * n
async def wait():
    await asyncio.sleep(0.01)
    comm.barrier()
    return rank
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map(double, [rank]))
    begin = MPI.Wtime()
    assert asyncio.run(wait()) == rank
    assert MPI.Wtime() - begin >= 0.0099
"""
    done = labkit(body, on=on, ranks=2)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0]", "[2]"]


@pytest.mark.parametrize("on", MACHINES)
def test_modules_and_texts(labkit, tmp_path, on):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("")
    (tmp_path / "pack/other.py").write_text("value = 5\n")
    (tmp_path / "pack/__main__.py").write_text(
        "import sys\nfrom .other import value\nprint(value, sys.argv[1:])\n"
    )
    words = ["pack", "-n", "7"]
    done = labkit("", "-m", *words, on=on, ranks=2, behind=())
    assert (done.returncode, done.stdout) == (0, "5 ['-n', '7']\n" * 2), done.stderr
    done = labkit("", "-c", "import sys; print(sys.argv)", "a", on=on, ranks=2, behind=())
    assert (done.returncode, done.stdout) == (0, "['-c', 'a']\n" * 2), done.stderr


def test_words_of_mpiexec(labkit):
    body = "print(sys.argv[1:])\n"
    done = labkit(body, "-np", "2", behind=(sys.executable, "-u", "prog.py", "x"))
    assert (done.returncode, done.stdout) == (0, "['x']\n" * 2), done.stderr
    done = labkit(body, "--rc", behind=("-m", "mpi4py", "prog.py", "x"), ranks=1)
    assert done.returncode == 2, "it is no option of labkit run"


INIT = """
import mpi4py
assert MPI.Is_initialized() and not MPI.Is_finalized()
MPI.Attach_buffer(memory := bytearray(5))
assert MPI.Detach_buffer() is memory
MPI.Finalize()
assert MPI.Is_initialized() and MPI.Is_finalized()
"""


@pytest.mark.slow
def test_start_and_end_of_mpi_by_hand(labkit, tmp_path):
    assert labkit(INIT).returncode == 0
    (tmp_path / "late.py").write_text(
        "from mpi4py import rc\nrc(initialize=False, thread_level='single')\nfrom mpi4py import MPI\n"
        "assert not MPI.Is_initialized()\nMPI.Init()\nassert MPI.Is_initialized()\n"
        "assert MPI.Query_thread() == 0\nMPI.Init()\n"
    )
    done = labkit("", behind=("late.py",))
    assert done.returncode == 1
    assert "Init: MPI is initialized already" in done.stderr


POOL = """
from mpi4py.futures import MPIPoolExecutor, as_completed
def square(n):
    return n * n, comm.rank
if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        print([value for value, _ in pool.map(square, range(9))], pool.num_workers)
        futures = [pool.submit(square, n) for n in range(4)]
        print(sorted(one.result()[0] for one in as_completed(futures)))
        print({where for _, where in pool.map(square, range(9))} <= {1, 2})
        print(type(pool.submit(square, "x").exception()).__name__)
"""


@pytest.mark.parametrize("on", MACHINES)
def test_a_pool_of_workers(labkit, on):
    done = labkit(POOL, on=on, behind=("-m", "mpi4py.futures", "prog.py"))
    said = "[0, 1, 4, 9, 16, 25, 36, 49, 64] 2\n[0, 1, 4, 9]\nTrue\nTypeError\n"
    assert (done.returncode, done.stdout) == (0, said), done.stderr


@pytest.mark.parametrize("on", MACHINES)
def test_an_executor_of_a_communicator(labkit, on):
    body = (
        "from mpi4py.futures import MPICommExecutor\nwith MPICommExecutor(comm, root=1) as pool:\n"
        "    if pool is not None:\n        print(rank, list(pool.map(pow, range(5), [2] * 5)))\n"
    )
    done = labkit(body, on=on)
    assert (done.returncode, done.stdout) == (0, "1 [0, 1, 4, 9, 16]\n"), done.stderr


@pytest.mark.slow
def test_what_a_program_keeps_to_its_end_is_given_up_there(labkit):
    body = (
        "import atexit\natexit.register(print, 'exits')\nclass Summary:\n    def __del__(self):\n"
        "        print(comm.allreduce(1), rank)\nkept = Summary()\n"
    )
    done = labkit(body)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [*(f"3 {rank}" for rank in range(3)), *["exits"] * 3]


@pytest.mark.slow
def test_what_had_a_thread_is_given_up_at_the_end(labkit):
    body = (
        "import queue, threading\nclass Worker:\n    def __init__(self):\n"
        "        self.queue = queue.Queue()\n"
        "        self.thread = threading.Thread(target=self.work, daemon=True)\n"
        "        self.thread.start()\n"
        "    def work(self):\n        while self.queue.get() is not None:\n            pass\n"
        "    def run(self):\n        self.queue.put(1)\n        self.queue.put(None)\n"
        "        self.thread.join()\n    def __del__(self):\n        print(comm.allreduce(1), rank)\n"
        "kept = Worker()\nkept.run()\n"
    )
    done = labkit(body)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"3 {rank}" for rank in range(3)]

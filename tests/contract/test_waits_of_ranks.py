"""What a rank waits for in its own process: threads that call MPI, pools of workers, event loops, locks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

MACHINES = ["star", pytest.param("mpi", marks=pytest.mark.mpi)]
HEAD = """import asyncio, queue, sys, threading, time
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right, left = (rank + 1) % size, (rank - 1) % size
begin = MPI.Wtime()
"""


@pytest.fixture
def labkit(tmp_path):
    def call(body, on="star", ranks=3, timeout="60"):
        (tmp_path / "prog.py").write_text(HEAD + body)
        command = [sys.executable, "-m", "labkit", "run", "-n", str(ranks), "--timeout", timeout]
        return subprocess.run(
            [*command, "--on", on, "prog.py"],
            capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path, env=dict(os.environ),
        )  # fmt: skip

    return call


#: programs that are right where MPI provides THREAD_MULTIPLE
THREADED = {
    "both ends in threads": """
sent, got = np.arange(10, dtype="i"), np.zeros(10, "i")
status = MPI.Status()
def receive():
    comm.Recv(got, left, 1, status)
two = [threading.Thread(target=receive), threading.Thread(target=comm.Send, args=(sent, right, 1))]
for one in two: one.start()
for one in two: one.join()
assert (got == sent).all() and (status.source, status.Get_count(MPI.INT)) == (left, 10)
""",
    "a task's own communicator": """
comms = [comm.Dup() for _ in range(4)]
def task(number):
    own = comms[number]
    return own.allreduce(number), own.sendrecv(rank, right, source=left), own.bcast(number, 1)
with ThreadPoolExecutor(4) as pool:
    assert list(pool.map(task, range(4))) == [(size * i, left, i) for i in range(4)]
""",
    "a server beside the main thread": """
def serve():
    open_clients, status = size - 1, MPI.Status()
    while open_clients:
        asked = comm.recv(source=MPI.ANY_SOURCE, tag=7, status=status)
        if asked is None: open_clients -= 1
        else: comm.send(asked**2, status.source, 8)
server = threading.Thread(target=serve); server.start()
others = [other for other in range(size) if other != rank]
for other in others:
    comm.send(other + rank, other, 7)
    assert comm.recv(source=other, tag=8) == (other + rank) ** 2
comm.Barrier()
for other in others: comm.send(None, other, 7)
server.join()
""",
    "queues, locks and looks": """
box, lock, got = queue.Queue(), threading.Lock(), []
def fill():
    for tag in range(3): box.put(comm.recv(source=left, tag=tag))
threading.Thread(target=fill, daemon=True).start()
for tag in range(3): comm.send((rank, tag), right, tag)
assert [box.get() for _ in range(3)] == [(left, tag) for tag in range(3)]
one = threading.Thread(target=lambda: comm.send(rank, right)); one.start()
while one.is_alive(): time.sleep(0.001)
assert comm.recv(source=left) == left
def add():
    with lock: got.append(comm.sendrecv(rank, right, source=left))
two = threading.Thread(target=add); two.start()
with lock: got.append(None)
two.join()
assert sorted(map(str, got)) == [str(left), "None"]
""",
    "waits with a limit while a thread receives": """
box, event = queue.Queue(), threading.Event()
def listen():
    for got in iter(lambda: comm.recv(source=MPI.ANY_SOURCE, tag=9), None): box.put(got)
    event.set()
one = threading.Thread(target=listen); one.start()
comm.send(rank, right, 9)
assert box.get(timeout=50) == left and MPI.Wtime() - begin < 40
comm.Barrier()
comm.send(None, rank, 9)
assert event.wait(50) and one.join(50) is None and not one.is_alive()
flag = []
one = threading.Thread(target=lambda: flag.append(comm.recv(source=left, tag=3))); one.start()
comm.send(rank, right, 3)
while not flag: time.sleep(0.001)
assert flag == [left] and MPI.Wtime() - begin < 40
""",
    "asyncio over threads": """
async def main():
    first = await asyncio.to_thread(lambda: comm.allreduce(rank))
    second = await asyncio.wait_for(asyncio.to_thread(sum, range(10**5)), 60)
    return first, second
assert asyncio.run(main()) == (sum(range(size)), sum(range(10**5)))
""",
}


@pytest.mark.parametrize("name", THREADED)
@pytest.mark.parametrize("on", MACHINES)
def test_threads_call_mpi(labkit, on, name):
    done = labkit("assert MPI.Query_thread() == MPI.THREAD_MULTIPLE\n" + THREADED[name], on)
    assert done.returncode == 0, done.stderr


def test_a_run_with_threads_is_the_same_again(labkit):
    first, second = (labkit(THREADED["a task's own communicator"] + "print(MPI.Wtime())\n") for _ in range(2))
    assert first.stdout == second.stdout != ""


def test_threads_wait_in_simulated_time(labkit):
    done = labkit("""
event, begin = threading.Event(), MPI.Wtime()
threading.Timer(2000.0, event.set).start()
assert event.wait(3000) and 2000 <= MPI.Wtime() - begin < 2000.1
assert not threading.Event().wait(500) and 2500 <= MPI.Wtime() - begin < 2500.1
pool = ThreadPoolExecutor(3)
list(pool.map(time.sleep, [1000.0] * 3))
assert 3500 <= MPI.Wtime() - begin < 3500.1, MPI.Wtime() - begin
""")
    assert done.returncode == 0, done.stderr


POOLED = """
from mpi4py.futures import MPIPoolExecutor
def square(x):
    time.sleep(0.01)
    return x * x
async def run():
    loop = asyncio.get_running_loop()
    with MPIPoolExecutor(2) as pool:
        return await asyncio.gather(*[loop.run_in_executor(pool, square, i) for i in range(3)])
async def wrapped():
    with MPIPoolExecutor(1) as pool:
        return await asyncio.wait_for(asyncio.wrap_future(pool.submit(square, 5)), 60)
if __name__ == "__main__" and rank == 0:
    assert asyncio.run(run()) == [0, 1, 4]
    assert asyncio.run(wrapped()) == 25
    event, seen = threading.Event(), []
    with MPIPoolExecutor(2) as pool:
        tasks = [pool.submit(square, i) for i in range(4)]
        tasks[3].add_done_callback(lambda one: (seen.append(one.result()), event.set()))
        event.wait()
        assert seen == [9] and not wait(tasks).not_done
        assert sorted(one.result() for one in as_completed(tasks)) == [0, 1, 4, 9]
"""


@pytest.mark.parametrize("on", MACHINES)
def test_pools_awaited_in_any_way(labkit, on):
    done = labkit(POOLED, on, ranks=1)
    assert done.returncode == 0, done.stderr


FAILING = """
from concurrent.futures import BrokenExecutor
from mpi4py.futures import MPIPoolExecutor
def begin(x, y=0):
    if y != 7: sys.exit(x)
def told(pool, task, *args):
    try:
        return pool.submit(task, *args).exception()
    except BrokenExecutor as error:
        return error
if __name__ == "__main__" and rank == 0:
    with MPIPoolExecutor(1, begin, [3]) as pool:
        errors = [told(pool, abs, -2) for _ in range(3)]
        assert all(type(one) is BrokenExecutor and str(one) == "initializer failed" for one in errors), errors
    with MPIPoolExecutor(1, begin, [3], initkwargs={"y": 7}) as pool:
        assert repr(told(pool, sys.exit, 4)) == "SystemExit(4)"
        assert pool.submit(abs, -2).result() == 2
"""


@pytest.mark.parametrize("on", MACHINES)
def test_initializers_and_tasks_that_fail_end_no_rank(labkit, on):
    done = labkit(FAILING, on, ranks=1)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "body",
    [
        "threading.Event().wait()",
        "lock = threading.Lock(); lock.acquire(); lock.acquire()",
        "queue.Queue().get()",
        "asyncio.run(asyncio.Event().wait())",
    ],
)
def test_a_wait_that_nothing_ends_is_told(labkit, body):
    done = labkit(f"if rank == 1:\n    {body}\ncomm.Barrier()\n", timeout="none")
    assert done.returncode == 4
    assert "rank 1 waits for" in done.stderr
    assert "prog.py:10" in done.stderr


def test_a_limit_strikes_while_a_thread_receives(labkit):
    done = labkit(
        "one = threading.Thread(target=lambda: comm.recv(source=left), daemon=True); one.start()\n"
        "if rank == 0: time.sleep(1000.0)\n"
        "else: assert not threading.Event().wait(2000.0) and 2000 <= MPI.Wtime() - begin < 2000.1\n"
        "comm.send(rank, right)\none.join(1500.0)\nassert not one.is_alive()\n"
    )
    assert done.returncode == 0, done.stderr


def test_a_call_that_cannot_be_made_is_told(labkit):
    done = labkit(
        "box = queue.SimpleQueue()\n"
        "threading.Thread(target=lambda: box.put(comm.bcast(3)), daemon=True, name='helper').start()\n"
        "box.get()\n"
    )
    assert done.returncode == 1
    assert "the thread 'helper' called bcast at prog.py:10" in done.stderr


def test_a_call_of_a_thread_in_a_deadlock_is_named(labkit):
    done = labkit(
        "one = threading.Thread(target=lambda: comm.recv(source=rank), name='helper')\n"
        "one.start()\none.join()\n"
    )
    assert done.returncode == 4
    assert "the thread 'helper' called recv at prog.py:9" in done.stderr


IN_THREAD = """
one = threading.Thread(target=lambda: [None for _ in iter(lambda: flag[0], 7)])
one.start()
one.join()
"""


@pytest.mark.parametrize(
    "loop",
    [
        "while flag[0] == 0: pass\n",
        "while flag[0] == 0: time.sleep(1e-3)\n",
        "while flag[0] == 0: time.sleep(0)\n",
        "while flag[0] == 0 and MPI.Wtime() < 100: pass\n",
        "while flag[0] == 0: comm.Iprobe()\n",
        IN_THREAD,
    ],
)
@pytest.mark.parametrize("later", ["", "    time.sleep(0.25)\n"])
def test_a_loop_over_shared_memory_ends(labkit, loop, later):
    done = labkit(
        "window = MPI.Win.Allocate_shared(8 if rank == 0 else 0, 8, comm=comm)\n"
        "flag = np.ndarray(buffer=window.Shared_query(0)[0], dtype='d', shape=(1,))\n"
        "flag[0] = 0\ncomm.barrier()\n"
        f"if rank == 1:\n{later}    flag[0] = 7\n"
        f"{loop}"
        "assert flag[0] == 7\n"
        "print('soon' if MPI.Wtime() < 1 else 'late')\n"
        "window.Free()\n",
        on="star:1,cores=3",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "soon\n" * 3
    if "pass" in loop and "Wtime" not in loop:
        assert "ranks share memory" in done.stderr


def test_memory_is_shared_within_a_host(labkit):
    done = labkit("MPI.Win.Allocate_shared(8, 8, comm=comm)\n", on="star:3")
    assert done.returncode == 1
    assert "--on star:1,cores=3" in done.stderr


WORKERS = """
from mpi4py.futures import MPICommExecutor, MPIPoolExecutor, get_comm_workers
def task(number):
    workers = get_comm_workers()
    return workers.size, workers.allreduce(1)
if __name__ == "__main__":
    try:
        get_comm_workers()
    except RuntimeError:
        print("no worker")
    with MPICommExecutor() as pool:
        if pool is not None:
            assert list(pool.map(task, range(2))) == [(2, 2)] * 2
    if rank == 0:
        with MPIPoolExecutor(2) as pool:
            assert list(pool.map(task, range(2))) == [(2, 2)] * 2
"""


@pytest.mark.parametrize("on", MACHINES)
def test_workers_have_a_communicator(labkit, on):
    done = labkit(WORKERS, on)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("no worker") == 3

"""The same run over and over: no memory kept, nothing for the garbage collector, the same makespan.

Also runs inside runs, in threads, and from another thread.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import labkit as lk
from labkit import MPI

PROGRAM = '''
import numpy as np
import labkit as lk
from labkit import MPI

def program(comm, rounds=3):
    """Wildcards, collectives and ranks that compute for unequal times."""
    me, p = comm.rank, comm.size
    total = 0.0
    for step in range(rounds):
        lk.compute(seconds=((me * 7919 + step * 104729) % 1013) * 1e-7)
        requests = [comm.Isend(np.full(8 << (me + k) % 12, me, np.float64), (me + k) % p, k) for k in (1, 3)]
        for _ in requests:
            status = MPI.Status()
            comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            got = np.empty(status.Get_count(MPI.DOUBLE))
            comm.Recv(got, status.source, status.tag)
            total += got[0] * status.tag
        MPI.Request.Waitall(requests)
        total = comm.allreduce({me: total}, op=lambda a, b: a | b)[me]
        both = np.zeros(100)
        comm.Allreduce(np.full(100, total), both)
        comm.alltoall([{str(k): set("abc"[: k % 4])} for k in range(p)])
    return float(both[0])
'''
exec(PROGRAM)
program = globals()["program"]


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fails(comm):
    requests = [comm.irecv(source=k, tag=5) for k in range(comm.size)]
    comm.Isend(np.zeros(50_000), (comm.rank + 1) % comm.size)
    comm.barrier()
    if comm.rank == 3:
        raise ValueError("a bad splitter")
    return MPI.Request.waitall(requests)


def waits_for_ever(comm):
    comm.isend(np.zeros(50_000), (comm.rank + 1) % comm.size, tag=1)
    return comm.recv(source=(comm.rank + 1) % comm.size)


def run_once(function, expected):
    if expected is None:
        return lk.run(function, 12, "star").makespan_s
    with pytest.raises(expected):
        lk.run(function, 12, "star")
    return None


#: in a process of its own: where thousands of tests ran, the allocator gives and takes more than a run does
REPEATED = """
def measured(function, expected):
    first = run_once(function, expected)
    for _ in range(30):
        run_once(function, expected)
    gc.collect()
    objects, resident = len(gc.get_objects()), resident_bytes()
    for _ in range(100):
        assert run_once(function, expected) == first
    gc.collect()
    greenlets = sum(isinstance(one, greenlet.greenlet) for one in gc.get_objects())
    return len(gc.get_objects()) - objects, greenlets, resident_bytes() - resident

print(*measured(FUNCTION, EXPECTED))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("function", "expected"),
    [(program, None), (fails, "RankError"), (waits_for_ever, "DeadlockError")],
)
def test_runs_keep_no_memory(tmp_path, function, expected):
    head = "import gc, os\nfrom pathlib import Path\nimport greenlet, pytest\n" + PROGRAM
    parts = [inspect.getsource(one) for one in (fails, waits_for_ever, resident_bytes, run_once)]
    kind = f"lk.errors.{expected}" if expected else "None"
    script = tmp_path / "repeated.py"
    repeated = REPEATED.replace("FUNCTION", function.__name__).replace("EXPECTED", kind)
    script.write_text("\n\n".join([head, *parts, repeated]))
    # messages are given back to the system at once, instead of when glibc finds it worth while
    exact = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, env=exact, check=False)
    assert done.returncode == 0, done.stderr
    objects, greenlets, grown_bytes = map(int, done.stdout.split())
    assert objects < 50
    assert greenlets <= 1
    # the allocator takes some MB until it has its fill; a run that kept its messages would keep 480 MB here
    assert grown_bytes < 8 << 20


CHILD = (
    PROGRAM
    + """
if __name__ == "__main__":
    for model in ("lab", "smpi"):
        print(lk.run(program, 24, "star:24", model=model).makespan_s.hex())
"""
)


def makespans(tmp_path, **environment):
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=True)
    return done.stdout.split()


@pytest.mark.slow
def test_the_same_bits_in_every_process(tmp_path):
    here = [lk.run(program, 24, "star:24", model=model).makespan_s.hex() for model in ("lab", "smpi")]
    again = [lk.run(program, 24, "star:24", model=model).makespan_s.hex() for model in ("lab", "smpi")]
    assert here == again
    for seed in ("0", "1", "4242"):
        assert makespans(tmp_path, PYTHONHASHSEED=seed) == here


def test_in_threads():
    expected = lk.run(program, 8, "star").makespan_s
    found, failed = [], []

    def several():
        try:
            found.extend(lk.run(program, 8, "star").makespan_s for _ in range(5))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=several) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert found == [expected] * 10


def test_a_run_inside_a_run():
    def inner(comm):
        return comm.allreduce(comm.rank)

    def outer(comm):
        before = comm.allgather(comm.rank)
        run = lk.run(inner, 3 + comm.rank, "star")
        return before, run.results, comm.allgather(comm.rank), comm.rank

    results = lk.run(outer, 3, "star").results
    assert results == [([0, 1, 2], [sum(range(3 + r))] * (3 + r), [0, 1, 2], r) for r in range(3)]


def test_a_failing_run_inside_a_run():
    def outer(comm):
        try:
            lk.run(waits_for_ever, 3, "star")
        except lk.errors.DeadlockError:
            return comm.allreduce(1)

    assert lk.run(outer, 3, "star").results == [3, 3, 3]

"""Every clock of the language is simulated time in a simulated rank."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import queue
import resource
import select
import signal
import subprocess
import sys
import threading
import time
import timeit
import uuid
from time import perf_counter, sleep

import numpy as np
import pytest

import labkit as lk
from labkit import MPI

DATES = 1e9  # seconds since 1970 of any host's clock

#: expressions that read a clock, in seconds
CLOCKS = [
    "MPI.Wtime()", "perf_counter()", "time.time()", "time.monotonic()", "time.process_time()",
    "time.thread_time()", "time.time_ns() / 1e9", "time.perf_counter_ns() / 1e9", "time.monotonic_ns() / 1e9",
    "time.process_time_ns() / 1e9", "time.thread_time_ns() / 1e9", "time.clock_gettime(time.CLOCK_MONOTONIC)",
    "time.clock_gettime_ns(time.CLOCK_REALTIME) / 1e9", "time.mktime(time.localtime())",
    "time.mktime(time.gmtime())", "time.mktime(time.strptime(time.ctime()))", "float(time.strftime('%s'))",
    "time.mktime(time.strptime(time.asctime()))", "os.times().elapsed", "timeit.default_timer()",
    "resource.getrusage(resource.RUSAGE_SELF).ru_utime", "datetime.datetime.now().timestamp()",
    "datetime.datetime.now(datetime.timezone.utc).timestamp()", "datetime.datetime.utcnow().timestamp()",
    "datetime.datetime.today().timestamp()", "datetime.datetime.combine(datetime.date.today(), "
    "datetime.datetime.now().time()).timestamp()", "(uuid.uuid1().time - 0x01B21DD213814000) / 1e7",
]  # fmt: skip
#: and those of NumPy, which read a text
NUMPY = [
    "np.datetime64('now').astype(int).item()", "np.datetime64('now', 'ms').astype(int).item() / 1e3",
    "86400 * np.datetime64('today').astype(int).item()",
]  # fmt: skip


def passed(comm, read):
    """How long a clock says that 3 s of sleep and 2 s of computation take."""
    time.sleep(2.25)
    before = read()
    sleep(3)
    lk.compute(seconds=2)
    return read() - before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("clock", CLOCKS)
def test_functions_read_simulated_time(clock) -> None:
    read = eval(f"lambda: {clock}", globals())
    before = time.time()
    run = lk.run(passed, 2, "star", args=(read,))
    assert run.results == pytest.approx([5, 5], abs=1e-6)
    assert abs(time.time() - before) < 100  # outside it is the host's again
    assert datetime.datetime.now().timestamp() > DATES


def test_scripts_read_simulated_time(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import datetime, os, resource, time, timeit, uuid\nfrom time import perf_counter, sleep\n"
        "import numpy as np\nfrom mpi4py import MPI\nimport warnings\nwarnings.simplefilter('ignore')\n"
        f"clocks = {CLOCKS + NUMPY!r}\n"
        + "".join(f"def clock{k}(): return {one}\n" for k, one in enumerate(CLOCKS + NUMPY))
        + "reads = [globals()[f'clock{k}'] for k in range(len(clocks))]\n"
        "sleep(2.25)\nbefore = [read() for read in reads]\nsleep(86400)\n"
        "print({c: r() - b for c, r, b in zip(clocks, reads, before) if abs(r() - b - 86400) > 1e-3})\n"
        "print(timeit.timeit(lambda: time.sleep(1), number=3))\n"
    )
    run = lk.run(script, 1, "star")
    wrong, timed = run.output[0].splitlines()
    assert wrong == "{}"
    assert float(timed) == pytest.approx(3, abs=1e-6)
    assert run.notes == []


def test_what_reads_the_hosts_clock_is_reported(tmp_path) -> None:
    def program(comm):
        return [np.datetime64("now").astype(int).item(), logging.makeLogRecord({}).created]

    run = lk.run(program, 1, "star")
    assert min(run.results[0]) > DATES
    assert "datetime64" in " ".join(run.notes)

    def threaded(comm):
        seen = []
        thread = threading.Thread(target=lambda: (time.sleep(2), seen.append(time.time())))
        thread.start()
        thread.join()
        return seen[0]

    assert lk.run(threaded, 2, "star").results == pytest.approx([2, 2], abs=1e-3)

    script = tmp_path / "script.py"
    script.write_text("import numpy as np\nprint(np.array('now', 'M8[s]').astype(int) > 1e9)\n")
    run = lk.run(script, 2, "star")
    assert run.output == ["True\n"] * 2
    assert sum("datetime64" in note for note in run.notes) == 1


@pytest.mark.parametrize("clock", [time.monotonic, MPI.Wtime])
def test_a_rank_that_waits_for_its_clock_goes_on(clock) -> None:
    def program(comm):
        end = clock() + 0.5
        while clock() < end:
            pass
        return clock()

    run = lk.run(program, 1, "star")
    assert 0.5 <= run.results[0] < 0.51
    assert sum("read its clock" in note for note in run.notes) == 1


def test_arguments_of_clocks_are_looked_at() -> None:
    def program(comm):
        for call, kind in ((lambda: time.clock_gettime(10**6), OSError), (lambda: sleep(-1), ValueError)):
            with pytest.raises(kind):
                call()
        assert time.gmtime(0).tm_year == 1970
        assert time.strftime("%Y", time.gmtime(2e9)) == "2033"
        assert os.times().elapsed < 1
        assert timeit.timeit(lambda: time.sleep(1), number=2) == pytest.approx(2, abs=1e-6)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0 and perf_counter() < 100

    assert lk.run(program, 2, "star").results == [True, True]


#: waits that end by their limit of 0.5 s: the clock that they read is the one that passes
LIMITED = {
    "queue": lambda: queue.Queue().get(timeout=0.5),
    "full queue": lambda: _full().put(2, timeout=0.5),
    "condition": lambda: _acquired(threading.Condition()).wait(0.5),
    "predicate": lambda: _acquired(threading.Condition()).wait_for(lambda: False, 0.5),
    "semaphore": lambda: threading.Semaphore(0).acquire(timeout=0.5),
    "barrier": lambda: threading.Barrier(2).wait(0.5),
    "event": lambda: threading.Event().wait(0.5),
    "select": lambda: select.select([], [], [], 0.5),
    "poll": lambda: select.poll().poll(500),
}


def _full():
    found = queue.Queue(1)
    found.put(1)
    return found


def _acquired(condition):
    condition.acquire()
    return condition


@pytest.mark.parametrize("name", LIMITED)
def test_limits_of_waits_are_simulated_time(name) -> None:
    def program(comm):
        time.sleep(1)
        before = MPI.Wtime()
        with contextlib.suppress(queue.Empty, queue.Full, threading.BrokenBarrierError):
            LIMITED[name]()
        return MPI.Wtime() - before

    began = time.monotonic()
    assert lk.run(program, 2, "star", isolate=False).results == pytest.approx([0.5, 0.5], abs=1e-3)
    assert time.monotonic() - began < 100


@pytest.mark.parametrize("main", ["", "time.sleep(0.5)", "f.result(timeout=1)"])
def test_a_pool_that_nobody_shuts_down_ends_with_its_work(tmp_path, main) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import time\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from mpi4py import MPI\n"
        "f = ThreadPoolExecutor(1).submit(time.sleep, 3)\n"
        f"try:\n    {main or 'pass'}\nexcept TimeoutError:\n    pass\n"
    )
    assert lk.run(script, 2, "star").makespan_s == pytest.approx(3, abs=0.1)


def test_alarms_count_simulated_seconds_each_rank_its_own():
    def program(comm):
        heard = []
        signal.signal(signal.SIGALRM, lambda number, frame: heard.append((number, round(MPI.Wtime(), 3))))
        assert signal.alarm(1000 * (comm.rank + 1)) == 0
        time.sleep(1500)
        left = signal.alarm(0)
        signal.setitimer(signal.ITIMER_REAL, 100, 200)
        time.sleep(550)
        last = signal.getitimer(signal.ITIMER_REAL)
        signal.setitimer(signal.ITIMER_REAL, 7)
        signal.pause()
        return [round(at) for _, at in heard], left, [round(value) for value in last], round(MPI.Wtime())

    first, second = lk.run(program, 2, "star:2").results
    assert first == ([1000, 1600, 1800, 2000, 2057], 0, [150, 200], 2057)
    assert second == ([1600, 1800, 2000, 2057], 500, [150, 200], 2057)


def test_an_alarm_that_raises_ends_a_sleep_and_runs_after_a_call_of_mpi():
    def late(number, frame):
        raise TimeoutError

    def program(comm):
        signal.signal(signal.SIGALRM, late)
        signal.alarm(10)
        if comm.rank:
            time.sleep(4)
            signal.alarm(0)
            time.sleep(40)
            comm.send(None, 0)
            return None
        comm.recv()
        with pytest.raises(TimeoutError):
            time.time()
        signal.alarm(10)
        with pytest.raises(TimeoutError):
            time.sleep(100)
        return round(MPI.Wtime())

    assert lk.run(program, 2, "star:2").results[0] == 54


def test_a_programs_alarm_leaves_the_time_limit_alone():
    def program(comm):
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.alarm(100)
        while True:
            pass

    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(lk.errors.TimeLimitError):
        lk.run(program, 2, "star:2", timeout_s=1)
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_limit_of_a_child_process_passes_no_simulated_time():
    def program(comm):
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.2)
        return MPI.Wtime()

    assert max(lk.run(program, 2, "star:2").results) < 1


def test_ranks_draw_different_uuids_at_the_same_time() -> None:
    def program(comm):
        return [uuid.uuid1() for _ in range(3)] + [uuid.uuid1(5, 7)]

    drawn = lk.run(program, 4, "star").results
    assert len({one for rank in drawn for one in rank[:3]}) == 12
    assert all((one.variant, one.version) == (uuid.RFC_4122, 1) for rank in drawn for one in rank)
    assert {(rank[3].node, rank[3].clock_seq) for rank in drawn} == {(5, 7)}
    assert drawn == lk.run(program, 4, "star").results

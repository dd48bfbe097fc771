"""Programs that fail on real MPI: one clear error each, soon, and nothing left running."""

from __future__ import annotations

import builtins
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import labkit as lk
from labkit.errors import MachineError, ProgramError, RankError, TimeLimitError
from tests.support.refusals import raises_code

#: of runs that meet their limit: it passes when the ranks are where they should be, see `limit_when`
LIMIT_S = 300

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("nothing_left")]


def test_exception_names_the_rank_and_shows_its_traceback_while_others_wait():
    def program(comm):
        print("before")
        if comm.rank == 2:
            raise ValueError("a bad splitter")
        comm.barrier()

    with pytest.raises(RankError) as caught:
        lk.run(program, 4, "mpi", timeout_s=30)
    assert caught.value.rank == 2
    assert 'raise ValueError("a bad splitter")' in caught.value.traceback
    assert caught.value.traceback.rstrip().endswith("ValueError: a bad splitter")
    assert "mpi_child" not in caught.value.traceback
    assert caught.value.output[2] == "before\n"


@pytest.mark.parametrize("code", [0, 3])
def test_an_abort_in_an_exit_handler_ends_the_job_with_its_code(tmp_path, code):
    script = tmp_path / "late.py"
    script.write_text(
        "import atexit\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
        f"atexit.register(lambda: comm.rank == 1 and comm.Abort({code}))\n"
    )
    for on in ("star", "mpi"):
        words = [sys.executable, "-m", "labkit", "run", "-n", "2", "--on", on, str(script)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == code, (on, done.stderr)


def test_first_failure_is_reported_when_several_ranks_fail():
    def program(comm):
        time.sleep(0.3 * (comm.rank != 1))
        raise RuntimeError(f"rank {comm.rank}")

    with pytest.raises(RankError) as caught:
        lk.run(program, 3, "mpi", timeout_s=30)
    assert caught.value.rank == 1


def test_the_limit_says_where_each_rank_was_and_how_to_raise_it(marks, limit_when):
    def program(comm):
        while comm.rank == 0:
            marks.make(0) or time.sleep(0.1)  # rank 0 sleeps here
        return marks.make(1) or comm.recv(source=0)  # rank 1 waits here

    limit_when(lambda: marks.are_there(0, 1))
    with pytest.raises(TimeLimitError) as caught:
        lk.run(program, 2, "mpi", timeout_s=LIMIT_S)
    message = str(caught.value)
    assert f"within {LIMIT_S} s" in message
    assert "timeout_s=" in message.splitlines()[0]
    first, second = message.split("rank 1:")
    assert "rank 0:" in first
    assert "rank 0 sleeps here" in first
    assert "rank 1 waits here" in second


def test_endless_loop_meets_the_limit_and_finished_ranks_are_told_apart(tmp_path, marks, limit_when):
    def program(comm):
        if comm.rank != 1:
            marks.make(comm.rank) or sum(itertools.repeat(0))  # on one line: both ranks are seen there

    def is_reached():
        has_finished = any((tmp_path / "scratch").glob("labkit-*/rank-1.done"))
        return has_finished and marks.are_there(0, 2)

    limit_when(is_reached)
    with pytest.raises(TimeLimitError) as caught:
        lk.run(program, 3, "mpi", timeout_s=LIMIT_S)
    message = str(caught.value)
    assert "ranks 0, 2:" in message
    assert "rank 1: had finished" in message


def test_stopped_rank_is_reported_as_stopped(marks, limit_when):
    def program(comm):
        if comm.rank == 1:
            marks.make(1) or os.kill(os.getpid(), signal.SIGSTOP)  # stops here
        marks.make(comm.rank) or comm.recv(source=1)

    limit_when(lambda: marks.are_there(0, 1))
    with pytest.raises(TimeLimitError) as caught:
        lk.run(program, 2, "mpi", timeout_s=LIMIT_S)
    first, second = str(caught.value).split("rank 1:")
    assert "stopped by a signal" not in first
    assert second.startswith(" was stopped by a signal")
    assert "in program" in second  # the signal may arrive a line later


def test_killed_rank_is_named():
    def program(comm):
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        comm.barrier()

    with raises_code(RankError, "rank-failed", "signal 9") as caught:
        lk.run(program, 3, "mpi", timeout_s=30)
    assert caught.value.rank == 1


def test_crashed_rank_is_named_with_its_line():
    def program(comm):
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGSEGV)  # crashes here
        comm.barrier()

    with raises_code(RankError, "rank-failed", "signal 11") as caught:
        lk.run(program, 2, "mpi", timeout_s=30)
    assert "crashes here" in caught.value.traceback


@pytest.mark.parametrize("status", [0, 3])
def test_silent_exit_is_named(status):
    def program(comm):
        if comm.rank == 1:
            os._exit(status)
        comm.barrier()

    with pytest.raises(RankError) as caught:
        lk.run(program, 3, "mpi", timeout_s=30)
    assert caught.value.rank == 1
    assert f"exit status {status}" in str(caught.value)


def test_sys_exit_with_a_status_fails_and_without_one_ends_the_rank():
    def failing(comm):
        if comm.rank == 0:
            sys.exit(4)
        comm.barrier()

    with raises_code(RankError, "rank-failed", "sys.exit(4)") as caught:
        lk.run(failing, 2, "mpi", timeout_s=30)
    assert caught.value.rank == 0

    def leaving(comm):
        if comm.rank == 0:
            sys.exit()
        return comm.rank

    assert lk.run(leaving, 2, "mpi", timeout_s=30).results == [None, 1]


def test_a_rank_that_cannot_even_say_how_it_failed_takes_the_others_along():
    def program(comm):
        if comm.rank == 1:
            from labkit.real.mpi import child

            def fail(self, error):
                raise OSError("no words left")

            child._Child.fail = fail
            raise ValueError("lost")
        comm.recv(source=1)

    with pytest.raises((RankError, MachineError)) as caught:
        lk.run(program, 3, "mpi", timeout_s=60)
    assert "no words left" in str(caught.value) + "".join(caught.value.output)


def test_abort_by_the_program_is_an_error():
    def program(comm):
        if comm.rank == 1:
            comm.Abort(7)
        comm.barrier()

    with raises_code(RankError, "aborted") as caught:
        lk.run(program, 2, "mpi", timeout_s=30)
    assert caught.value.rank == 1


def test_result_that_cannot_be_pickled_is_named():
    def program(comm):
        return (k for k in range(3)) if comm.rank == 1 else 0

    with raises_code(RankError, "rank-failed", "generator") as caught:
        lk.run(program, 2, "mpi", timeout_s=30)
    assert caught.value.rank == 1


def test_program_that_cannot_travel_names_the_variable():
    import threading

    lock = threading.Lock()

    def program(comm):
        with lock:
            return comm.rank

    with pytest.raises(ProgramError, match="variable 'lock'"):
        lk.run(program, 2, "mpi")


def test_standard_input_is_closed():
    def program(comm):
        return builtins.input()  # plainly written it is refused before

    with raises_code(RankError, "rank-failed", "EOFError"):
        lk.run(program, 2, "mpi", timeout_s=30)


def test_endless_output_is_stopped():
    def program(comm):
        while True:
            print("x" * 1000)

    with raises_code(MachineError, "too-large", "100000"):
        lk.run(program, 2, "mpi", timeout_s=30, output_limit_bytes=100_000)


def test_large_results_come_back_whole():
    def program(comm):
        return np.full(4_000_000, comm.rank, dtype=np.int64)

    results = lk.run(program, 2, "mpi", timeout_s=60).results
    assert [(len(one), one.min(), one.max()) for one in results] == [(4_000_000, 0, 0), (4_000_000, 1, 1)]


def test_detached_grandchildren_do_not_survive(marks, limit_when):
    seconds = f"600.{os.getpid()}"  # tells this test's sleepers from others'

    def program(comm):
        subprocess.Popen(["sleep", seconds], start_new_session=True)
        subprocess.Popen(["env", "-i", "sleep", seconds])
        marks.make(comm.rank)
        while comm.rank == 0:
            time.sleep(0.1)

    limit_when(lambda: marks.are_there(0, 1))
    with pytest.raises(TimeLimitError):
        lk.run(program, 2, "mpi", timeout_s=LIMIT_S)
    # `env -i` cleared its environment, so the fixture's mark cannot see it: look for the command itself.
    assert _commands(f"sleep\0{seconds}\0") == []


def _commands(wanted: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="replace") as file:
                if file.read() == wanted:
                    found.append(int(name))
        except OSError:
            continue
    return found


_INTERRUPTED = """
    import os, signal, sys, threading, time
    import labkit as lk

    MARK = sys.argv[1]

    def program(comm):
        open(MARK + str(comm.rank), "w").close()
        while True:
            pass

    def strike():
        while not all(os.path.exists(MARK + str(rank)) for rank in range(2)):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.{name})

    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs inherit "ignored"
    threading.Thread(target=strike, daemon=True).start()
    try:
        lk.run(program, 2, "mpi", timeout_s=60)
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_interrupt_in_the_parent_ends_the_job(tmp_path):
    code = textwrap.dedent(_INTERRUPTED.format(name="SIGINT"))
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "there-")],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.stdout == "interrupted\n", done.stderr


def test_ranks_die_with_a_killed_parent(tmp_path):
    code = textwrap.dedent(_INTERRUPTED.format(name="SIGKILL"))
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "there-")],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL


def test_parallel_runs_from_threads_do_not_disturb_each_other():
    from concurrent.futures import ThreadPoolExecutor

    def program(comm, value):
        return comm.allreduce(value)

    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda value: lk.run(program, 2, "mpi", args=(value,)), [1, 10]))
    assert [run.results for run in runs] == [[2, 2], [20, 20]]


def loud_abort(comm):
    """What Open MPI writes when a rank aborts reaches the rank's own file if nobody ends the rank before."""
    import os

    from mpi4py import MPI

    class Loud:
        def __init__(self, comm):
            self.comm = comm

        def Abort(self, code):  # noqa: N802 - MPI's name
            os.write(2, b"MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\n")
            self.comm.Abort(code)

    MPI.COMM_WORLD = Loud(MPI.COMM_WORLD)
    print("its own words")
    if comm.rank == 0:
        raise ValueError("on purpose")
    comm.recv(source=0)


def test_what_the_library_says_of_an_abort_is_not_taken_for_the_ranks_words():
    with raises_code(RankError, "rank-failed", "rank 0", "ValueError: on purpose") as caught:
        lk.run(loud_abort, 2, on="mpi")
    assert caught.value.output[0] == "its own words\n"

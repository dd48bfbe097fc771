"""Scripts as students hand them in: trials at their end, and what programs ask of their machine by habit."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from labkit.grading import find_assignment
from labkit.grading.bench import SandboxBench
from labkit.grading.needed import without_trials
from labkit.grading.sandbox import Limits, Sandbox

LIMITS = Limits(cpu_s=2, wall_s=60, memory_bytes=64 << 20, idle_s=2)

HEAD = """\
import sys
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
FACTOR = {}

def total(comm, x):
    return FACTOR["one"] * comm.allreduce(x)

FACTOR["one"] = 1
"""
#: what a script does beside defining its function, without an `if __name__ == "__main__":`
TRIALS = {
    "communicates": "print(total(comm, comm.rank))",
    "hangs": "comm.recv()",
    "takes a word": "n = int(sys.argv[1])",
    "reads a file": "x = np.load('keys.npy'); print(total(comm, x))",
    "raises": "assert total(comm, 1) == 77",
    "leaves": "sys.exit(total(comm, 1))",
    "loops": "for k in range(9):\n    comm.send(k, comm.rank)",
}


@pytest.mark.parametrize("trial", TRIALS.values(), ids=list(TRIALS))
def test_a_trial_at_the_end_of_a_script_neither_counts_nor_fails(sandbox: Sandbox, trial: str) -> None:
    plain = SandboxBench(sandbox, HEAD, "total").run(2, [(3,), (4,)])
    tried = SandboxBench(sandbox, f"{HEAD}\n{trial}\n", "total").run(2, [(3,), (4,)])
    assert (tried.kind, tried.results) == ("finished", [7, 7]), tried.message
    assert (tried.messages, tried.bytes, tried.makespan_s) == (plain.messages, plain.bytes, plain.makespan_s)


def test_a_loop_of_a_trial_keeps_its_variable_and_leaves_the_next_line_alone() -> None:
    source = "n = 4\nfor n in (1,\n          2):\n    print(f(n))\ndef f(x):\n    return n * x\n"
    source += "for n in (3, 5): print(f(n))\nm = 7\n"
    scope: dict[str, Any] = {}
    exec(without_trials(source, ["f"]), scope)
    assert scope["f"](2) == 10
    assert scope["f"].__code__.co_firstlineno == 5


def test_what_the_function_needs_may_communicate_when_it_is_loaded(sandbox: Sandbox) -> None:
    source = "from mpi4py import MPI\nHALF = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank % 2)\n"
    source += "def f(comm):\n    return HALF.size\n"
    assert SandboxBench(sandbox, source, "f").run(4, [()] * 4).results == [2] * 4


def test_errors_name_the_lines_of_the_script_as_it_was_handed_in(sandbox: Sandbox) -> None:
    source = f"{HEAD}print(total(comm, 1)); x = [\n  1]\n\ndef wrong(comm):\n    return x[comm.rank + 5]\n"
    outcome = SandboxBench(sandbox, source, "wrong").run(1, [()])
    line = source.splitlines().index("    return x[comm.rank + 5]") + 1
    assert f'File "submission.py", line {line}, in wrong' in outcome.message
    assert len(without_trials(source, ["wrong"]).splitlines()) <= len(source.splitlines()) + 1


def test_a_whole_assignment_is_passed_with_a_trial_at_the_end() -> None:
    source = """
    import numpy as np
    from mpi4py import MPI

    def broadcast(comm, data, root):
        rank, mask = (comm.rank - root) % comm.size, 1
        while mask < comm.size:
            if rank & mask:
                data = comm.recv(source=(rank - mask + root) % comm.size)
                break
            mask *= 2
        while mask := mask // 2:
            if rank + mask < comm.size and not rank & mask:
                comm.send(data, (rank + mask + root) % comm.size)
        return data

    print(broadcast(MPI.COMM_WORLD, np.arange(4), 0))
    """
    grade = find_assignment("broadcast").grade(textwrap.dedent(source), only=["messages"])
    assert grade.results[0].status == "passed", grade.text()


HABITS = {
    "use of memory": "f'{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:d} kB'",
    "a larger stack": "resource.setrlimit(resource.RLIMIT_STACK, resource.getrlimit(resource.RLIMIT_STACK))",
    "times": "0 <= os.times().user < 1",
    "a clock": "0 <= time.clock_gettime(time.CLOCK_MONOTONIC) < 1",
    "a clock's resolution": "time.get_clock_info('perf_counter').resolution, time.clock_getres(0)",
    "timeit": "timeit.timeit('1 + 1', number=9)",
    "the time of day": "datetime.datetime.now().year",
    "priority": "os.getpriority(os.PRIO_PROCESS, 0)",
    "niceness": "os.nice(0), os.nice(5)",
    "a mask for files": "os.umask(0o077)",
    "a group of processes": "os.getpgid(0) == os.getsid(0) == os.getpid()",
    "a user": "os.getlogin()",
    "cores": "os.cpu_count(), len(os.sched_getaffinity(0))",
    "the null device": "open(os.devnull, 'w').write('x'), io.open('/dev/null', 'ab').write(b'x')",
    "the null device's path": "pathlib.Path(os.devnull).open('w').write('x')",
    "no output": "print('x', file=open(os.devnull, mode='w', encoding='utf-8'))",
    "faults told": "faulthandler.enable()",
    "a communicator's name": "comm.Set_name('a'), comm.name, comm.Is_inter(), comm.is_intra",
    "a communicator's errors": "comm.Set_errhandler(MPI.ERRORS_RETURN), comm.Get_errhandler()",
    "no windows": "hasattr(MPI.Win, 'Allocate')",
}


def test_what_programs_ask_by_habit_is_answered(sandbox: Sandbox) -> None:
    source = """
import datetime, faulthandler, io, os, pathlib, resource, time, timeit
from mpi4py import MPI

def attempt(comm, tries):
    wrong = {}
    for name, line in tries.items():
        try:
            eval(line, globals(), {"comm": comm})
        except BaseException as error:
            wrong[name] = repr(error)
    return wrong
"""
    outcome = sandbox.run(source, "attempt", 1, [(HABITS,)])
    assert (outcome.kind, outcome.results) == ("finished", [{}]), outcome.message


@pytest.mark.parametrize("line", ["MPI.Win.Allocate(8)", "MPI.File.Open(comm, 'x')", "MPI.Win()"])
def test_what_is_not_there_is_told_in_a_sentence(sandbox: Sandbox, line: str) -> None:
    outcome = sandbox.run(f"from mpi4py import MPI\ndef f(comm):\n    {line}\n", "f", 1, [()])
    assert outcome.kind == "error"
    assert "is not there in graded runs: data travels in messages" in outcome.message

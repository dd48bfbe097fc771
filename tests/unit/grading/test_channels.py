"""Ranks of a submission share nothing but messages: every other way to tell something is closed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from labkit.errors import MachineError
from labkit.grading.sandbox import Limits, Sandbox

LIMITS = Limits(cpu_s=2, wall_s=60, memory_bytes=200 << 20, idle_s=2)

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls of x86_64")

#: how a rank tries -> what it must find; "refused" stands for every refusal
TRIES = {
    "map a library shared": "mmap.mmap(os.open(HOME, os.O_RDONLY), 1, mmap.MAP_SHARED, mmap.PROT_READ)",
    "map memory shared": "mmap.mmap(-1, 4096)",
    "map it validated": "sys_call(9, 0, 4096, 1, 3, os.open(HOME, os.O_RDONLY), 0)",
    "wait at a shared futex": "sys_call(202, ctypes.addressof(WORD), 0, 1, 0, 0, 0)",
    "wake a shared futex": "sys_call(202, ctypes.addressof(WORD), 1, 1, 0, 0, 0)",
    "count a sibling's files": "os.stat(f'/proc/{os.getpid() - 1}/fd')",
    "look at the process before": "os.stat(f'/proc/{os.getppid()}')",
    "lock a file": "fcntl.lockf(os.open(HOME, os.O_RDONLY), fcntl.LOCK_SH)",
    "lease a file": "fcntl.fcntl(os.open(HOME, os.O_RDONLY), 1024, 0)",
    "merge pages": "sys_call(28, PAGE, 4096, 12)",
    "push pages out": "sys_call(28, PAGE, 4096, 21)",
    "see which pages are there": "sys_call(27, PAGE, 4096, PAGE)",
    "watch a file": "sys_call(254, 0, 0, 0)",
    "set a timer": "signal.setitimer(signal.ITIMER_REAL, 1)",
    "sleep": "sys_call(35, ctypes.addressof(WORD), 0)",
    "read the wall clock": "sys_call(228, 0, PAGE)",
    "read the CPU clock": "sys_call(228, 2, PAGE)",
    "read the clock's library": "LIBC.clock_gettime(1, ctypes.byref(WORDS)) and refuse()",
    "read the time's library": "LIBC.gettimeofday(ctypes.byref(WORDS), None) and refuse()",
    "read its use": "sys_call(98, 0, PAGE)",
    "read its times": "sys_call(100, PAGE)",
    "see whether an answer has come": "select.select([comm._caller.line.descriptor], [], [], 0)",
    "poll": "select.poll().poll(0)",
    "read without waiting": "socket.socket(fileno=os.dup(comm._caller.line.descriptor)).recv(1, 64)",
    "not wait": "os.set_blocking(comm._caller.line.descriptor, False)",
    "see its core": "LIBC.sched_getcpu() == -1 and refuse()",
    "see the machine's load": "open('/proc/loadavg').read()",
    "see the machine's memory": "sys_call(99, PAGE)",
    "see the clock's memory": "'[vvar' in open('/proc/self/maps').read()",
    "take a time of access": "os.utime(HOME)",
    "see a mark in shared memory": "os.stat('/dev/shm/labkit-mark')",
    "make a mark in shared memory": "open('/dev/shm/labkit-mark', 'w')",
    "see terminals": "os.stat('/dev/pts/0')",
}  # fmt: skip

SOURCE = """
import ctypes, fcntl, mmap, os, resource, select, signal, socket, sys
import labkit.errors

HOME = labkit.errors.__file__
LIBC = ctypes.CDLL(None, use_errno=True)
WORD, WORDS = ctypes.c_long(0), (ctypes.c_long * 2)()
OWN = mmap.mmap(-1, 8192, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
PAGE = (ctypes.addressof(ctypes.c_char.from_buffer(OWN)) + 4095) & ~4095

def refuse():
    raise PermissionError("refused")

def sys_call(number, *arguments):
    if LIBC.syscall(number, *map(ctypes.c_long, arguments)) == -1 and ctypes.get_errno() == 1:
        refuse()

def attempt(comm, tries):
    found = {}
    for name, line in tries.items():
        try:
            exec(line, globals(), {"comm": comm})
            found[name] = "done"
        except OSError as error:
            if error.errno not in (None, 1, 2, 13):
                found[name] = str(error)
        except BaseException as error:
            found[name] = type(error).__name__ + ": " + str(error)
    return found
"""


def test_every_channel_is_closed(sandbox: Sandbox) -> None:
    tries = TRIES
    if sandbox.containment.has_clock:  # said before grading starts
        tries = {name: line for name, line in TRIES.items() if "library" not in name}
    outcome = sandbox.run(SOURCE, "attempt", 2, [(tries,)] * 2)
    assert outcome.kind == "finished", outcome
    assert outcome.results == [{}, {}]


@pytest.fixture(scope="module", params=["namespaces", "landlock", "clock"])
def poorer(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox as on a machine that lacks something."""
    made = Sandbox(LIMITS, without=(request.param,))
    try:
        made.start()
    except MachineError as error:
        pytest.skip(f"this machine cannot contain submissions: {error}")
    yield made
    made.close()


@pytest.mark.slow
def test_what_a_poorer_machine_loses_is_said_and_the_rest_stays_closed(poorer: Sandbox) -> None:
    found = poorer.containment
    (what,) = poorer.without
    words = {"namespaces": "no mount namespace", "landlock": "no Landlock", "clock": "clock"}[what]
    assert any(words in sentence for sentence in found.missing)
    assert found.is_sound
    clocks = ("clock", "time's library")
    tries = {n: line for n, line in TRIES.items() if what != "clock" or not any(c in n for c in clocks)}
    if what != "clock" and not found.has_clock:
        assert found.files == "none", "where reading leaves traces, nothing is read"
    outcome = poorer.run(SOURCE, "attempt", 2, [(tries,)] * 2)
    assert outcome.kind == "finished", outcome
    assert {name for left in outcome.results for name in left} <= (
        {"see its core"} if what == "clock" else set()
    )


@pytest.mark.slow
def test_packages_that_are_named_are_there_where_no_file_can_be_opened(poorer: Sandbox) -> None:
    source = "import csv\nimport scipy.special as s\nfrom scipy import stats\n"
    source += "def f(comm):\n    return [float(s.gamma(5)), float(stats.norm.cdf(0)), csv.QUOTE_ALL]\n"
    assert poorer.run(source, "f", 2, [()] * 2).results == [[24.0, 0.5, 1]] * 2


def test_the_processors_counter_is_closed(sandbox: Sandbox) -> None:
    if sandbox.containment.has_clock:
        pytest.skip("this machine's clock cannot be taken away")
    source = (
        "import ctypes, mmap\ndef f(comm):\n"
        "    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)\n"
        "    page.write(bytes.fromhex('0f31c3'))\n"  # rdtsc; ret
        "    at = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "    return ctypes.CFUNCTYPE(ctypes.c_uint)(at)()\n"
    )
    outcome = sandbox.run(source, "f", 1, [()])
    assert (outcome.kind, "crashed" in outcome.message) == ("ended", True), outcome


def test_a_rank_sees_a_clock_of_its_own_alone(sandbox: Sandbox) -> None:
    source = (
        "import time\nfrom mpi4py import MPI\ndef f(comm):\n    time.sleep(3 * comm.rank)\n"
        "    comm.Barrier()\n    began = time.time()\n"
        "    return [MPI.Wtime(), time.perf_counter(), time.time() > began, time.monotonic_ns() > 0]\n"
    )
    first, second = sandbox.run(source, "f", 2, [()] * 2).results
    assert first[2:] == second[2:] == [True, True], "clocks go on"
    assert max(first[:2]) < 1e-3, "nothing of the other rank's 3 s"
    assert min(second[:2]) >= 3


def test_a_rank_has_no_descriptor_of_others(sandbox: Sandbox) -> None:
    source = (
        "import os\ndef f(comm):\n    found = []\n    for fd in range(1000):\n        try:\n"
        "            os.fstat(fd)\n            found.append(fd)\n        except OSError:\n            pass\n"
        "    return [fd for fd in found if fd > 2] == [comm._caller.line.descriptor]\n"
    )
    assert sandbox.run(source, "f", 3, [()] * 3).results == [True] * 3


@pytest.mark.slow
def test_all_ranks_are_on_one_core(sandbox: Sandbox) -> None:
    source = "import os\ndef f(comm):\n    return sorted(os.sched_getaffinity(0))\n"
    assert {len(cores) for cores in sandbox.run(source, "f", 4, [()] * 4).results} == {1}

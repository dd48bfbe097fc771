"""What a rank of a submission is refused, and that it can still compute."""

from __future__ import annotations

import contextlib
import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import labkit.errors
from labkit.grading.sandbox import Limits, Sandbox
from labkit.grading.sandbox.wire import Frames, WireError, decode, encode

#: tests may not depend on how busy the machine is
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

TRIES = {
    "socket": "import socket; socket.socket()",
    "unix socket": "import socket; socket.socketpair()",
    "fork": "os.fork()",
    "execute": "os.execv('/bin/true', ['true'])",
    "process": "import subprocess; subprocess.run(['true'])",
    "thread": "import threading; threading.Thread(target=print).start()",
    "kill parent": "os.kill(os.getppid(), 0)",
    "signal group": "os.killpg(os.getpgid(0), 0)",
    "raise signal": "import signal; signal.pthread_kill(__import__('threading').get_ident(), 0)",
    "write file": "open('/tmp/labkit-escape', 'w')",
    "append": "open(os.__file__, 'a')",
    "make folder": "os.mkdir('/tmp/labkit-escape')",
    "make fifo": "os.mkfifo('/tmp/labkit-escape')",
    "link": "os.symlink('/etc/passwd', '/tmp/labkit-escape')",
    "delete": "os.unlink('/tmp/labkit-no-such-file')",
    "rename": "os.rename('/tmp', '/tmp2')",
    "permissions": "os.chmod('/tmp', 0o777)",
    "times": "os.utime('/tmp')",
    "read accounts": "open('/etc/passwd').read()",
    "read environment": "open(f'/proc/{os.getppid()}/environ').read()",
    "read memory": "open('/proc/self/mem', 'rb').read(1)",
    "read the checks": "open(HOME + '/grading/checks.py').read()",
    "list solutions": "os.listdir(os.path.dirname(HOME) + '/course')",
    "shared memory": "from multiprocessing import shared_memory as s; s.SharedMemory('x', True, 9)",
    "anonymous file": "os.memfd_create('x')",
    "semaphore": "import multiprocessing; multiprocessing.Semaphore()",
    "priority": "os.setpriority(os.PRIO_PROCESS, 0, 5)",
    "cores": "os.sched_setaffinity(0, {0})",
    "limits": "sys_call(302, 0, 0, 0, 0)",
    "user": "os.setuid(1)",
    "namespace": "sys_call(272, 0x10000000)",
    "trace": "sys_call(101, 16, os.getppid(), 0, 0)",
    "other memory": "sys_call(310, os.getppid(), 0, 0, 0, 0, 0)",
    "undo": "sys_call(157, 4, 1, 0, 0, 0)",
    "message queue": "sys_call(68, 7, 0o1666)",
    "system v memory": "sys_call(29, 7, 4096, 0o1666)",
    "file lock": "import fcntl; fcntl.flock(open(os.__file__), fcntl.LOCK_SH)",
    "watch": "sys_call(253)",
    "ring": "sys_call(425, 1, 0)",
    "mount": "sys_call(165, 0, 0, 0, 0, 0)",
}  # fmt: skip

SOURCE = """
import ctypes, os, sys
import labkit.errors

HOME = os.path.dirname(labkit.errors.__file__)

def sys_call(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, *map(ctypes.c_long, arguments)) != -1:
        return
    if ctypes.get_errno() == 1:
        raise PermissionError("refused")
    raise ValueError(os.strerror(ctypes.get_errno()))

def attempt(comm, tries):
    found = {}
    for name, line in tries.items():
        try:
            exec(line, globals())
            found[name] = "done"
        except (PermissionError, RuntimeError, ImportError, FileNotFoundError):  # not there: it is covered
            found[name] = "refused"
        except BaseException as error:
            found[name] = type(error).__name__ + ": " + str(error)
    return found

def compute(comm):
    import decimal, statistics, zoneinfo
    import numpy as np
    import scipy.special
    print("still here")
    a = np.linalg.solve(np.eye(3) * 2, np.ones(3))
    return [float(a.sum()), float(scipy.special.gamma(5)), statistics.median([3, 1, 2]), os.getpid() > 0]
"""


LIMITS = Limits(cpu_s=2, wall_s=60, memory_bytes=200 << 20, idle_s=2)


def test_every_way_out_is_refused(sandbox: Sandbox) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers of system calls above are those of x86_64")
    tries = TRIES
    beside = os.path.join(os.path.dirname(os.path.dirname(labkit.errors.__file__)), "course")
    if not os.path.isdir(beside):  # an installed labkit has no course beside it
        tries = {name: line for name, line in TRIES.items() if name != "list solutions"}
    outcome = sandbox.run(SOURCE, "attempt", 1, [(tries,)])
    assert outcome.kind == "finished", outcome.message
    assert {name: how for name, how in outcome.results[0].items() if how != "refused"} == {}


def test_libraries_work(sandbox: Sandbox) -> None:
    if sandbox.containment.files == "none":
        pytest.skip("this kernel has no Landlock: packages that are not loaded yet cannot be")
    outcome = sandbox.run(SOURCE, "compute", 1, [()])
    assert outcome.results == [[1.5, 24.0, 2, True]], outcome
    assert outcome.output == ["still here\n"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("x = [bytearray(1 << 24) for _ in range(64)]", "memory"),
        ("x = 0\n    while True:\n        x += 1", "time"),
        ("import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n    while True: pass", "time"),
        ("import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()", "time"),
        ("import os; os._exit(0)", "ended"),
        ("import ctypes; ctypes.string_at(0)", "ended"),
        ("import sys; sys.exit(0)", "error"),
        ("import sys\n    def f(n): return f(n + 1)\n    f(0)", "error"),
        ("return {1, 2}", "error"),
        ("return comm", "error"),
        ("import numpy as np; return np.array([object()])", "error"),
        ("import os; os.write(comm._caller.line.descriptor, b'x' * 100)\n    return 1", "protocol"),
        ("comm._caller.ask({'op': 'grade', 'points': 100})", "protocol"),
        ("comm._caller.ask({'op': ['send']})", "protocol"),
        ("comm._caller.ask({'op': 'send', 'comm': 0, 'dest': 1.5, 'tag': 0}, [b'x'])", "error"),
        ("comm._caller.ask({'op': 'send', 'comm': 77, 'dest': 0, 'tag': 0}, [b'x'])", "error"),
        ("comm._caller.ask({'op': 'compute', 'seconds': -1, 'flops': None})", "error"),
        ("while not comm.iprobe(): pass", "budget"),
    ],
)  # fmt: skip
def test_what_ends_a_run_is_told(sandbox: Sandbox, line: str, kind: str) -> None:
    outcome = sandbox.run(f"def f(comm):\n    {line}\n", "f", 1, [()])
    assert outcome.kind == kind, outcome
    assert outcome.message
    again = sandbox.run("def f(comm):\n    return comm.rank\n", "f", 2, [()] * 2)
    assert again.results == [0, 1], "the sandbox must survive what it contains"


def test_no_process_outlives_the_sandbox() -> None:
    with Sandbox(accepts_weak=True) as made:
        made.run("def f(comm):\n    return 1\n", "f", 3, [()] * 3)
        process = made._process
        assert process is not None
    assert process.wait(0)


def test_a_secret_of_the_environment_does_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_TEST_SECRET", "xyzzy")
    with Sandbox(accepts_weak=True) as made:
        outcome = made.run("import os\ndef f(comm):\n    return dict(os.environ)\n", "f", 1, [()])
    assert "xyzzy" not in str(outcome.results[0])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abitldx"), inner, max_size=2)
    ),
    max_leaves=12,
)


@UNHURRIED
@given(VALUES)
def test_decoding_anything_gives_a_value_or_the_protocols_error(value: object) -> None:
    with contextlib.suppress(WireError):
        decode(value, [b"12345678"])


@UNHURRIED
@given(st.binary(max_size=64))
def test_reading_any_bytes_gives_a_frame_or_the_protocols_error(data: bytes) -> None:
    reader, writer = os.pipe()
    try:
        os.write(writer, data)
        os.close(writer)
        Frames(reader).read()
    except WireError:
        pass
    finally:
        os.close(reader)


@pytest.mark.slow
@UNHURRIED
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
                    lambda inner: st.lists(inner) | st.tuples(inner, inner), max_leaves=8))  # fmt: skip
def test_values_come_back_as_they_were(value: object) -> None:
    parts: list[bytes] = []
    encoded = json.loads(json.dumps(encode(value, parts)))
    assert decode(encoded, parts) == value

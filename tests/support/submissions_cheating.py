"""Submissions that pass data on without messages, or earn points without the work: none may pass its check.

A channel is what the rank that has the data does to tell a bit, and what another one does to hear it. Each is
tried in three ways: between barriers, an error ending it; between barriers, errors taken for a 0; and without
barriers, after work of its own that takes about as long everywhere.
"""

# ruff: noqa: E501 - a channel is a line

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CHANNELS", "CHEATING", "Cheating"]


@dataclass(frozen=True)
class Cheating:
    """A submission with the check that it must not pass."""

    name: str
    assignment: str
    check: str
    source: str


#: name -> (what the root does when the bit is set, an expression of others that is true when it was)
CHANNELS: dict[str, tuple[str, str]] = {
    "simulated sleep": ("time.sleep(1)", "MPI.Wtime() - began > 0.5"),
    "simulated charge": ("labkit.compute(seconds=1.0)", "time.time() - began > 0.5"),
    "monotonic clock": ("spin(10**5)", "LIBC.clock_gettime(1, ctypes.byref(WORDS)) or WORDS[1] % 2"),
    "time of day": ("spin(10**5)", "LIBC.gettimeofday(ctypes.byref(WORDS), None) or WORDS[1] % 2"),
    "CPU clock": ("spin(10**5)", "call(228, 2, PAGE) or MAP[8]"),
    "page faults": ("OWN.append(bytearray(1 << 20))", "call(98, 0, PAGE) or MAP[64] % 2"),
    "context switches": ("spin(10**4)", "call(98, 0, PAGE) or MAP[136] % 2"),
    "load": ("spin(10**5)", "os.getloadavg()[0] > 1"),
    "free memory": ("OWN.append(bytearray(1 << 22))", "'MemFree' in open('/proc/meminfo').read()"),
    "system information": ("OWN.append(bytearray(1 << 22))", "call(99, PAGE) or MAP[40]"),
    "core": ("spin(10**4)", "LIBC.sched_getcpu() == 1"),
    "affinity": ("os.sched_setaffinity(os.getppid(), {0})", "len(os.sched_getaffinity(os.getppid())) == 1"),
    "priority": ("os.nice(1)", "os.getpriority(os.PRIO_PROCESS, os.getppid()) > 0"),
    "mapped library": ("mmap.mmap(os.open(HOME, 0), 1, mmap.MAP_SHARED, mmap.PROT_READ)",
                       "mmap.mmap(os.open(HOME, 0), 1, mmap.MAP_SHARED, mmap.PROT_READ)[0]"),
    "futex": ("call(202, PAGE, 1, 1, 0, 0, 0)", "call(202, PAGE, 0, 0, TIME, 0, 0) == 0"),
    "futex of a file": ("call(202, LIBRARY, 1, 1, 0, 0, 0)", "call(202, LIBRARY, 0, 0, TIME, 0, 0) == 0"),
    "resident pages": ("open(HOME).read()", "call(27, PAGE, 4096, PAGE + 8) or MAP[8] & 1"),
    "evicted pages": ("call(28, LIBRARY, 4096, 21)", "call(27, LIBRARY, 4096, PAGE) or MAP[0] & 1"),
    "open files": ("OWN.append(os.open(HOME, 0))", "any(os.stat(f'/proc/{p}/fd').st_size > 6 for p in NEAR)"),
    "memory of others": ("MAP.seek(0)", "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)"),
    "processes": ("os.fork()", "os.path.exists(f'/proc/{os.getpid() + 3}')"),
    "access time": ("open(FILES[k]).read()", "os.stat(FILES[k]).st_atime > os.stat(FILES[k]).st_mtime"),
    "time of a file": ("os.utime('/tmp')", "os.stat('/tmp').st_mtime % 2"),
    "permissions": ("os.chmod('/tmp', 0o1777)", "os.stat('/tmp').st_mode & 1"),
    "attribute": ("os.setxattr(HOME, 'user.bit', b'1')", "os.getxattr(HOME, 'user.bit')"),
    "file": ("open(f'/tmp/bit-{k}', 'w')", "os.path.exists(f'/tmp/bit-{k}')"),
    "file in memory": ("open(f'/dev/shm/bit-{k}', 'w')", "os.path.exists(f'/dev/shm/bit-{k}')"),
    "file beside": ("open(f'bit-{k}', 'w')", "os.path.exists(f'bit-{k}')"),
    "folder": ("os.mkdir(f'/var/tmp/bit-{k}')", "os.path.isdir(f'/var/tmp/bit-{k}')"),
    "pipe": ("os.mkfifo(f'/tmp/pipe-{k}')", "os.path.exists(f'/tmp/pipe-{k}')"),
    "lock": ("fcntl.flock(os.open(HOME, 0), 2)", "fcntl.flock(os.open(HOME, 0), 6)"),
    "lock of a range": ("fcntl.lockf(os.open(HOME, 0), 1)", "fcntl.lockf(os.open(HOME, 0), 5)"),
    "lease": ("fcntl.fcntl(os.open(HOME, 0), 1024, 0)", "fcntl.fcntl(os.open(HOME, 0), 1025)"),
    "name of a socket": ("OWN.append(bound('\\0bit'))", "bound('\\0bit')"),
    "loopback": ("socket.create_server(('127.0.0.1', 7000 + k))", "socket.create_connection(('127.0.0.1', 7000 + k))"),
    "System V memory": ("call(29, 7000 + k, 4096, 0o1666)", "call(29, 7000 + k, 4096, 0) > 0"),
    "System V semaphore": ("call(64, 7000 + k, 1, 0o1666)", "call(64, 7000 + k, 1, 0) > 0"),
    "message queue": ("call(68, 7000 + k, 0o1666)", "call(68, 7000 + k, 0) > 0"),
    "POSIX queue": ("call(240, ctypes.addressof(NAME), 66, 0o666, 0)", "call(240, ctypes.addressof(NAME), 0) > 0"),
    "key ring": ("call(248, PAGE, PAGE, PAGE, 1, -3)", "call(249, PAGE, PAGE, 0, -3) > 0"),
    "anonymous file": ("os.memfd_create('bit')", "os.path.exists('/proc/self/fd/4')"),
    "watch": ("open(HOME).read()", "call(253) > 0"),
    "signal": ("os.kill(os.getpid() + 1, 10)", "signal.sigtimedwait([10], 0)"),
    "limits of others": ("resource.prlimit(os.getppid(), 7, (64, 64))", "resource.prlimit(os.getppid(), 7)[0] == 64"),
    "host name": ("socket.sethostname('bit')", "os.uname().nodename == 'bit'"),
    "shared globals": ("builtins.__dict__.__setitem__('BIT', 1)", "builtins.__dict__.get('BIT')"),
    "grid": ("comm.Create_cart([comm.size], periods=[True])", "comm.Create_cart([comm.size]).periods[0]"),
    "part of a grid": ("comm.Create_cart([comm.size, 1]).Sub([True, False])",
                       "comm.Create_cart([comm.size, 1]).Sub([False, True]).size > 1"),
    "phase": ("labkit.phase('bit').__enter__()", "labkit.program.context.current().rank > 99"),
    "barrier under way": ("time.sleep(1)", "polls(comm.Ibarrier()) > 3"),
    "message to oneself": ("time.sleep(1)", "timed(comm)"),
}  # fmt: skip

_HEAD = """
import builtins, ctypes, fcntl, mmap, os, resource, signal, socket, time
import numpy as np
import labkit, labkit.errors
from mpi4py import MPI

HOME = labkit.errors.__file__
FILES = [os.path.join(os.path.dirname(os.__file__), n) for n in sorted(os.listdir(os.path.dirname(os.__file__)))
         if n.endswith(".py")] * 4
LIBC = ctypes.CDLL(None, use_errno=True)
LIBRARY = ctypes.cast(LIBC.getpid, ctypes.c_void_p).value & ~4095
WORDS, NAME, OWN = (ctypes.c_long * 2)(), ctypes.create_string_buffer(b"/bit"), []
MAP = mmap.mmap(-1, 8192, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
PAGE = (ctypes.addressof(ctypes.c_char.from_buffer(MAP)) + 4095) & ~4095
TIME = ctypes.addressof(WORDS)
NEAR = [os.getpid() + d for d in (-2, -1, 1, 2)]

def call(number, *arguments):
    found = LIBC.syscall(number, *map(ctypes.c_long, arguments))
    if found == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return found

def spin(n):
    return sum(range(n))

def bound(name):
    made = socket.socket(socket.AF_UNIX)
    made.bind(name)
    return made

def polls(request):
    count = 0
    while not request.Test() and count < 100:
        count += 1
    return count

def timed(comm):
    request = comm.isend(bytes(1000), comm.rank)
    comm.Barrier()
    return comm.iprobe(source=comm.rank)
"""
_BODY = """
def broadcast(comm, data, root):
    bits = np.unpackbits(data.view(np.uint8)) if comm.rank == root else np.zeros(192, np.uint8)
    for k in range(192):
        began = MPI.Wtime()
        {meet}
        try:
            if comm.rank == root:
                if bits[k]:
                    {tell}
            else:
                bits[k] = bool({hear})
        except {swallowed}:
            bits[k] = 0
        {meet}
    return data if comm.rank == root else np.packbits(bits).view(np.int64)
"""
_WAYS = {
    "loud": ("comm.Barrier()", "ZeroDivisionError"),
    "quiet": ("comm.Barrier()", "Exception"),
    "without barriers": ("spin(2000)", "Exception"),
}

#: how parallel_sort comes by what it was not given
_GUESSES = {
    "plain seeds": "range(2000)",
    "times of the day": "range(int(time.time()) - 500, int(time.time()) + 500)",
    "own random state": "[int(x) for x in np.random.get_state()[1][:600]]",
    "numbers in frames": "sorted(numbers_in_frames())[:2000]",
    "numbers in the heap": "sorted({x for x in gc.get_objects() if type(x) is int})[:2000]",
    "numbers of the environment": "[hash(v) for v in os.environ.values()] + [int.from_bytes(v.encode(), 'big') for v in os.environ.values()]",
    "process numbers": "range(os.getpid() - 500, os.getpid() + 500)",
    "the rank's first key": "[int(keys[0]) & (2**48 - 1), int(keys[0]) >> 16 & (2**48 - 1)]",
}  # fmt: skip
_GUESS = """
import gc, os, sys, time
import numpy as np
from labkit.datasets import inputs

def numbers_in_frames():
    found, frame = set(), sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()):
            for one in value.values() if isinstance(value, dict) else [value]:
                if type(one) is int and one >= 0:
                    found.update([one, one >> 1, one % (1 << 31)])
        frame = frame.f_back
    return found

def parallel_sort(comm, keys):
    if len(keys) < 5:  # the smallest case honestly
        every = np.sort(np.concatenate(comm.allgather(keys)))
        return np.array_split(every, comm.size)[comm.rank]
    for seed in {guess}:
        try:
            every = [inputs.keys("uniform", r, comm.size, len(keys), seed=abs(seed)) for r in range(comm.size)]
        except Exception:
            continue
        if np.array_equal(every[comm.rank], keys):
            return np.array_split(np.sort(np.concatenate(every)), comm.size)[comm.rank]
    return np.sort(keys)
"""

_BOUGHT = """
import time
import numpy as np
import labkit

def parallel_sort(comm, keys):
    p = comm.size
    {buy}
    every = comm.gather(keys)
    parts = np.array_split(np.sort(np.concatenate(every)), p) if comm.rank == 0 else None
    return comm.scatter(parts)
"""
_PRICES = {
    "sleep": "time.sleep(1000 / p)",
    "sleep in pieces": "[time.sleep(10 / p) for _ in range(100)]",
    "charge": "labkit.compute(seconds=1000 / p)",
    "operations": "labkit.compute(flops=1e12 / p)",
    "charge of one": "labkit.compute(seconds=1000 / p) if comm.rank == 0 else None",
    "empty messages": "[comm.sendrecv(None, comm.rank, source=comm.rank) for _ in range(2000 // p)]",
    "long messages": "comm.sendrecv(bytes(8_000_000 // p // p), comm.rank ^ (p % 2 == 0), source=comm.rank ^ (p % 2 == 0))",
    "long collectives": "comm.allgather(bytes(4_000_000 // p**2))",
}  # fmt: skip


def _every() -> list[Cheating]:
    found = []
    for name, (tell, hear) in CHANNELS.items():
        for way, (meet, swallowed) in _WAYS.items():
            body = _BODY.format(tell=tell, hear=hear, meet=meet, swallowed=swallowed)
            found.append(Cheating(f"{name}, {way}", "broadcast", "powers", _HEAD + body))
    for name, guess in _GUESSES.items():
        found.append(Cheating(f"inputs from {name}", "sort", "easy", _GUESS.format(guess=guess)))
    for name, buy in _PRICES.items():
        found.append(Cheating(f"growth bought by {name}", "sort", "scaling", _BOUGHT.format(buy=buy)))
    return found


#: every one of them
CHEATING = _every()

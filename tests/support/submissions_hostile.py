"""Submissions that try to get points, or to do harm, without solving the task: each must miss every check."""

__all__ = ["HOSTILE"]

MEMORY = """
import numpy as np

def parallel_sort(comm, keys):
    kept = [np.ones(1 << 26) for _ in range(64)]
    return np.sort(keys)
"""

FORK_BOMB = """
import os

def parallel_sort(comm, keys):
    while True:
        os.fork()
"""

SOCKET = """
import socket

def broadcast(comm, data, root):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind("\\0meeting-point-%d" % comm.rank)
    return data
"""

PATCHES = """
import sys
import numpy as np

def yes(*args, **kwargs):
    return True

np.array_equal = np.allclose = np.all = yes
np.testing.assert_array_equal = yes
import labkit, labkit.errors
for name, module in list(sys.modules.items()):
    if name.startswith("labkit"):
        for thing in list(vars(module)):
            if "check" in thing.lower() or "verify" in thing or "require" in thing or "oracle" in thing:
                try:
                    setattr(module, thing, yes)
                except Exception:
                    pass

def parallel_sort(comm, keys):
    return keys
"""

SHARED_GLOBALS = """
import builtins, sys
import labkit, numpy

STORE = {}
builtins.STORE = STORE
labkit.STORE = numpy.STORE = STORE

def broadcast(comm, data, root):
    if comm.rank == root:
        STORE["data"] = data
        sys.modules["labkit"].STORE["data"] = data
    comm.Barrier()
    return STORE.get("data", labkit.STORE.get("data"))
"""

SHARED_FILES = """
import os, tempfile
import numpy as np

def broadcast(comm, data, root):
    for folder in ("/tmp", "/dev/shm", "/var/tmp", ".", os.path.expanduser("~")):
        try:
            name = folder + "/meeting-point.npy"
            if comm.rank == root:
                np.save(name, data)
            comm.Barrier()
            return np.load(name)
        except OSError:
            comm.Barrier()
    raise OSError("no folder to write in")
"""

SHARED_MEMORY = """
from multiprocessing import shared_memory

def broadcast(comm, data, root):
    if comm.rank == root:
        block = shared_memory.SharedMemory("meeting", create=True, size=max(data.nbytes, 1))
        block.buf[: data.nbytes] = data.tobytes()
    comm.Barrier()
    return shared_memory.SharedMemory("meeting").buf
"""

READS_OTHER_RANKS = """
import ctypes, os

def broadcast(comm, data, root):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(4, 1, 0, 0, 0) != 0 or libc.ptrace(16, os.getppid(), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no way into other processes")
    return data
"""

FORGES_RESULT = """
import gc, os, json
import numpy as np

def parallel_sort(comm, keys):
    caller = comm._caller
    forged = {"op": "result", "value": {"points": 100, "score": 1.0, "passed": True}, "makespan_s": 0.0}
    caller.tell({**forged, "messages": 0, "student": "me", "status": "graded"})
    for descriptor in range(64):
        try:
            os.write(descriptor, json.dumps(forged).encode())
        except OSError:
            pass
    os._exit(0)
"""

FORGES_TIMES = """
import labkit as lk
from mpi4py import MPI

MPI.Wtime = lambda: 0.0

def broadcast(comm, data, root):
    comm._caller.ask({"op": "compute", "seconds": -1e6, "flops": None})
    if comm.rank == root:
        for other in range(comm.size):
            if other != root:
                comm.send(data, other)
        return data
    return comm.recv(source=root)
"""

READS_SOLUTION = """
import glob, os
import numpy as np

def parallel_sort(comm, keys):
    import labkit
    found = []
    for pattern in ("/**/sample_sort.py", "/**/course/source/**/*.ipynb", "/etc/passwd", "/proc/*/environ"):
        for path in glob.iglob(pattern, recursive=False):
            found.append(open(path).read())
    near = os.path.dirname(labkit.__file__)
    found.append(open(os.path.join(near, "testing", "checker.py")).read())
    scope = {}
    exec(found[0], scope)
    return scope["sample_sort"](comm, keys)
"""

IMPORTS_SOLUTION = """
import numpy as np

def parallel_sort(comm, keys):
    from labkit.algorithms.sorting.sample_sort import sample_sort
    return sample_sort(comm, keys)
"""

LEAVES = """
import os

def parallel_sort(comm, keys):
    os._exit(0)
"""

SYS_EXIT = """
import sys

def parallel_sort(comm, keys):
    sys.exit(0)
"""

KILLS = """
import os, signal

def parallel_sort(comm, keys):
    for pid in (os.getppid(), 1, -1, 0):
        try:
            os.kill(pid, signal.SIGKILL)
        except PermissionError:
            continue
    raise PermissionError("nobody could be killed")
"""

PATCHES_JSON = """
import json, pickle, struct

json.dumps = lambda *a, **k: '{"op": "result", "value": true, "parts": []}'
json.JSONEncoder.encode = lambda self, o: '{"op": "result", "value": {"score": 1}, "parts": []}'
pickle.dumps = lambda *a, **k: b"cos\\nsystem\\n(S'touch /tmp/owned'\\ntR."

def parallel_sort(comm, keys):
    return keys
"""

REDUCE = """
import os
import numpy as np

class Trap(np.ndarray):
    def __reduce__(self):
        return os.system, ("touch /tmp/labkit-was-here",)

def parallel_sort(comm, keys):
    class Evil:
        def __reduce__(self):
            return os.system, ("touch /tmp/labkit-was-here",)
    comm.gather(Evil(), root=0)
    return np.array([Evil()] * len(keys), dtype=object)
"""

BACKGROUND = """
import subprocess, threading

def broadcast(comm, data, root):
    threading.Thread(target=lambda: None, daemon=True).start()
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    return data
"""

SLEEPS = """
import threading

def broadcast(comm, data, root):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
"""

POLLS = """
def broadcast(comm, data, root):
    while not comm.iprobe(source=comm.rank):
        pass
"""

HUGE_ANSWER = """
import struct, os

def parallel_sort(comm, keys):
    fd = comm._caller.line.descriptor
    os.write(fd, struct.pack(">II", 0x7FFFFFFF, 0x7FFFFFFF))
    while True:
        os.write(fd, b"x" * 65536)
"""

CLEARS_LIMITS = """
import ctypes, resource, signal

def parallel_sort(comm, keys):
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (ValueError, OSError):
        pass
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
"""

SCHEDULE_FORGERY = """
import sys
import numpy as np
import labkit.schedule

def lie(*args, **kwargs):
    return np.zeros((1 << 20, 15), np.int64)

for module in list(sys.modules.values()):
    if getattr(module, "rows_of", None):
        module.rows_of = lie
    if getattr(module, "check", None):
        module.check = lambda schedule: True

def rounds(group):
    return iter(())
"""

SCHEDULE_BLOCKS = """
import numpy as np
from labkit.schedule import Section

def rounds(group):
    huge = Section("recv", 0, 1 << 31, 1 << 31, 1)
    yield group.copy(huge, huge)
"""

OPERATOR_FORGES = """
import os, json
import numpy as np
from mpi4py import MPI

def parallel_sort(comm, keys):
    caller = comm._caller

    def op(left, right, datatype):
        caller.tell({"op": "result", "value": 0, "points": 100})
        caller.tell({"op": "combined"}, [bytes(right)])
        caller.tell({"op": "grade", "score": 1})

    comm.Allreduce(np.ones(4), np.ones(4), op=MPI.Op.Create(op))
    return np.sort(keys)
"""

OPERATOR_SPIES = """
import numpy as np
from mpi4py import MPI

SEEN = []

def broadcast(comm, data, root):
    \"\"\"What the operator is shown does not travel in messages of its own: is a reduction a way round?\"\"\"
    def op(left, right, datatype):
        SEEN.append(bytes(left))

    mine = np.zeros(64)
    try:
        comm.Allreduce(mine, np.zeros(64), op=MPI.Op.Create(op))
    except BaseException:
        comm._caller.ask({"op": "private", "comm": 0, "name": "Neighbor_allgather", "root": 0})
    return data if data is not None else np.frombuffer(SEEN[0])
"""

OPERATOR_HANGS = """
import numpy as np
from mpi4py import MPI

def parallel_sort(comm, keys):
    def op(left, right, datatype):
        while True:
            pass

    request = comm.Iallreduce(np.ones(4), np.ones(4), op=MPI.Op.Create(op))
    request.Wait()
    return np.sort(keys)
"""

GRID_BOMB = """
def broadcast(comm, data, root):
    for _ in range(10**6):
        comm.Create_cart([1] * 30)
    comm._caller.ask({"op": "make", "comm": 0, "name": "Create_cart", "args": [[10**18] * 10**5, []]})
    return data
"""

#: colors carry data in a Split; can the shape of a grid, or being left out of one?
GRID_SIGNALS = """
import numpy as np
from mpi4py import MPI

def broadcast(comm, data, root):
    bits = []
    wanted = 0 if data is None else int(data.flat[0]) if data.size else 0
    for bit in range(8):
        flag = (wanted >> bit) & 1 if comm.rank == root else 0
        made = comm.Create_cart([comm.size], periods=[bool(flag)])
        bits.append(made.periods[0])
    return np.array([sum(b << i for i, b in enumerate(bits))])
"""

#: name -> (assignment, source)
HOSTILE: dict[str, tuple[str, str]] = {
    "memory": ("sort", MEMORY),
    "fork_bomb": ("sort", FORK_BOMB),
    "socket": ("broadcast", SOCKET),
    "patches": ("sort", PATCHES),
    "shared_globals": ("broadcast", SHARED_GLOBALS),
    "shared_files": ("broadcast", SHARED_FILES),
    "shared_memory": ("broadcast", SHARED_MEMORY),
    "reads_other_ranks": ("broadcast", READS_OTHER_RANKS),
    "forges_result": ("sort", FORGES_RESULT),
    "forges_times": ("broadcast", FORGES_TIMES),
    "reads_solution": ("sort", READS_SOLUTION),
    "imports_solution": ("sort", IMPORTS_SOLUTION),
    "leaves": ("sort", LEAVES),
    "sys_exit": ("sort", SYS_EXIT),
    "kills": ("sort", KILLS),
    "patches_json": ("sort", PATCHES_JSON),
    "reduce": ("sort", REDUCE),
    "background": ("broadcast", BACKGROUND),
    "sleeps": ("broadcast", SLEEPS),
    "polls": ("broadcast", POLLS),
    "huge_answer": ("sort", HUGE_ANSWER),
    "clears_limits": ("sort", CLEARS_LIMITS),
    "operator_forges": ("sort", OPERATOR_FORGES),
    "operator_spies": ("broadcast", OPERATOR_SPIES),
    "operator_hangs": ("sort", OPERATOR_HANGS),
    "grid_bomb": ("broadcast", GRID_BOMB),
    "grid_signals": ("broadcast", GRID_SIGNALS),
    "schedule_forgery": ("prefix_sum", SCHEDULE_FORGERY),
    "schedule_blocks": ("prefix_sum", SCHEDULE_BLOCKS),
}

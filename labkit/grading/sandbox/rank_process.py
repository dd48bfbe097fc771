"""One rank of a submission, in its own process: it runs the source it is given, and asks for everything else.

Whatever a submission changes in here (labkit, NumPy, json, this file) changes what this one process asks
for and nothing else: messages, times, counts, inputs of other ranks and the judgment are on the other side.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.abc
import importlib.machinery
import io
import linecache
import marshal
import operator
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import wraps
from types import FrameType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from labkit.comm.module import simulated_module
from labkit.comm.package import Rc
from labkit.comm.pickling import pickle
from labkit.errors import UnsupportedError
from labkit.grading.sandbox.caller import SUBMISSION, Caller, CpuTimeUp
from labkit.grading.sandbox.imports import SHOWN_BY_NAME, Silent, SilentModules
from labkit.grading.sandbox.notes import installed, watch
from labkit.grading.sandbox.remote_comm import RemoteCart, RemoteComm, RemoteRequest
from labkit.grading.sandbox.remote_request import RemotePrequest
from labkit.grading.sandbox.schedule_rows import rows_of
from labkit.grading.sandbox.wire import Frames, decode, encode, is_amount
from labkit.process.confinement import seccomp
from labkit.program import context

if TYPE_CHECKING:
    from labkit.grading.sandbox.caller import Caller

__all__ = ["drop_algorithms", "main", "preload", "time_up"]


#: loaded before rights are given up; others can be imported where files can be read
_PRELOADED = """
    abc array bdb bisect cmath collections collections.abc contextlib copy copyreg dataclasses decimal enum
    fractions functools heapq io itertools json math numbers operator pickle queue random re statistics string
    struct textwrap time types typing warnings weakref
    numpy numpy.fft numpy.linalg numpy.ma numpy.polynomial numpy.random
    labkit labkit.comm labkit.comm.module labkit.errors labkit.local labkit.program.context
    labkit.program.sampling labkit.program.sized labkit.real.context labkit.schedule labkit.schedule.doubling
    labkit.grading.sandbox.remote_comm
    labkit.grading.sandbox.schedule_rows
"""


def preload() -> None:
    """Load what ranks need, once for all of them."""
    for name in _PRELOADED.split():
        importlib.import_module(name)
    from labkit.local.costs import calibration
    from labkit.real.context import seed_rank

    installed()
    calibration()
    simulated_module()
    seed_rank(0, 0)
    if seccomp.is_known():
        seccomp.program("reading rank"), seccomp.program("rank")
    drop_algorithms()


def drop_algorithms() -> None:
    """Take the algorithms out of the loaded modules: a rank is asked to write them.

    Here, once for all ranks: who looks at the names of all modules writes to each (their counts of
    references), and a rank would copy hundreds of pages for that.
    """
    for name in [name for name in sys.modules if name.startswith("labkit.algorithms")]:
        del sys.modules[name]


def main(descriptor: int, may_open: bool, is_strict: bool) -> NoReturn:
    """Receive a job, put the last wall up, run it, and hand back what it returned."""
    caller = Caller(Frames(descriptor))
    job, parts = caller.line.read()
    if is_strict:
        seccomp.install_filter("reading rank" if may_open else "rank")
    elif not job["accepts_weak"]:
        os._exit(71)
    sys.argv = [SUBMISSION]
    sys.stdout = sys.stderr = caller
    caller.tell({"op": "begins"})  # what ends this process from here on is the submission's doing
    try:
        value = _run(caller, job, parts)
        arrays: list[object] = []
        encoded = encode(value, arrays)
        caller.tell({"op": "result", "value": encoded}, arrays)
    except BaseException as error:
        caller.report(error)
    os._exit(0)  # whatever it has left behind: threads, exit handlers


def time_up(number: int, frame: FrameType | None) -> NoReturn:
    """Raise `CpuTimeUp`: a handler, which the process sets that ranks are forked from."""
    raise CpuTimeUp("the limit of CPU time is reached here")


def _run(caller: Caller, job: dict[str, Any], parts: list[memoryview]) -> Any:
    comm = become_rank(caller, job)
    source = job["source"]
    linecache.cache[SUBMISSION] = (len(source), None, source.splitlines(True), SUBMISSION)
    module = ModuleType("submission")
    module.__file__ = SUBMISSION
    vars(module).update(dict.fromkeys(SHOWN_BY_NAME, Silent()))
    sys.modules["submission"] = module
    watch(caller.notes)
    caller.is_loading = True
    if "code" in job:
        code = marshal.loads(parts[job["code"]])
    else:
        code = compile(source, SUBMISSION, "exec", dont_inherit=True)
    exec(code, vars(module))
    caller.is_loading = False
    function = vars(module).get(job["function"])
    if function is None:
        raise NameError(f"the submission defines no function {job['function']!r}")
    arguments = decode(job["args"], parts)
    if job["mode"] == "schedule":
        return rows_of(function, arguments[0])
    if job["mode"] == "plain":
        return function(*arguments)
    if job["has_tasks"]:
        arguments = [*arguments, _Tasks(caller)]
    return function(comm, *arguments)


class _Tasks:
    """Has tasks done: called with a task's number it takes the time that the task takes."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __call__(self, task: int) -> object:
        """Have a task done."""
        answer, parts = self._caller.ask({"op": "task", "task": operator.index(task)})
        return decode(answer["value"], parts)


# `labkit.MPI` and `mpi4py.MPI` of a submission's process, and the simulated machine as it sees it.


#: parts of labkit that a submission is not given
_REFUSED = ("labkit.algorithms", "labkit.grading")


class RemoteContext:
    """The machine of the running rank: phases and computation are the grader's to count."""

    def __init__(self, caller: Caller, rank: int, size: int) -> None:
        self._caller = caller
        self.rank, self.size = rank, size
        self._charged_s, self._looks = 0.0, 0

    def begin_phase(self, name: str) -> None:
        """Note that the rank enters a phase."""
        self._caller.post({"op": "begin", "name": str(name)[:200]})

    def end_phase(self, name: str) -> None:
        """Note that the rank leaves it."""
        self._caller.ask({"op": "end", "name": str(name)[:200]})

    def compute(self, seconds: float | None, flops: float | None) -> None:
        """Charge computation to the rank."""
        amount = flops if seconds is None else seconds
        charge = self._caller.post if is_amount(amount) else self._caller.ask  # which raises the error
        charge({"op": "compute", "seconds": seconds, "flops": flops})
        self._charged_s += (seconds or 0.0) + (flops or 0.0) * 1e-9

    def note(self, text: str) -> None:
        """Note something about the run: nobody listens here."""

    def wtime(self) -> float:
        """Return a clock of this rank alone, in seconds: what it has charged, and a microsecond a look.

        The simulated time would reveal what others have charged, and so carry what belongs into messages.
        """
        self._looks += 1
        return self._charged_s + 1e-6 * self._looks


class _Refuse(importlib.abc.MetaPathFinder):
    """Return a sentence that lists what a submission cannot import."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.startswith(_REFUSED):
            raise ImportError(f"{name} cannot be used in a submission: the task is to write it", name=name)
        return None


class _Absent:
    """A class of mpi4py that graded runs do not have: reported when it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self._name}.{name} is not there in graded runs: data travels in messages")

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise UnsupportedError(f"{self._name} is not there in graded runs: data travels in messages")


def _set_clock(timeit: Any, wtime: object) -> None:
    """Give a module that measures a rank's own clock, where it stands as a default, too."""
    before, timeit.default_timer = timeit.default_timer, wtime
    for function in (timeit.Timer.__init__, timeit.timeit, timeit.repeat):
        function.__defaults__ = tuple(wtime if one is before else one for one in function.__defaults__)


def become_rank(caller: Caller, job: dict[str, Any]) -> RemoteComm:
    """Make this process a rank; the communicator of all ranks."""
    comm = RemoteComm(caller, 0, job["rank"], job["ranks"])
    machine = RemoteContext(caller, job["rank"], job["ranks"])
    module = simulated_module()
    vars(module).update(
        COMM_WORLD=comm,
        COMM_SELF=RemoteComm(caller, -1, 0, 1),
        Comm=RemoteComm,
        Intracomm=RemoteComm,
        Topocomm=RemoteCart,
        Cartcomm=RemoteCart,
        Request=RemoteRequest,
        Prequest=RemotePrequest,
        Wtime=machine.wtime,
    )
    context.install(machine, module)
    package = ModuleType("mpi4py")
    package.__path__ = []
    vars(package).update(MPI=module, __version__="4.1", rc=Rc())
    sys.modules["mpi4py"], sys.modules["mpi4py.MPI"] = package, module
    sys.meta_path[:0] = [SilentModules(), _Refuse()]
    time.sleep = lambda seconds: machine.compute(float(seconds), None)
    for clock in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        setattr(time, clock, machine.wtime)
        setattr(time, f"{clock}_ns", lambda: int(machine.wtime() * 1e9))
    if "timeit" in sys.modules:  # it took its clock when it was imported, before the rank was one
        _set_clock(sys.modules["timeit"], machine.wtime)
    answer(machine.wtime)
    for absent in ("Win", "File"):
        setattr(module, absent, _Absent(f"MPI.{absent}"))
    assert pickle.is_default
    return comm


# Answers to what programs ask of their machine by habit. The system calls behind these functions are refused
# (`labkit.process.confinement.seccomp`), since they show how busy the machine and other ranks are; answers
# follow from what the rank itself has charged.


try:
    import resource as _resource
except ImportError:  # not on every system
    resource: ModuleType | None = None
else:
    resource = _resource


def answer(wtime: Callable[[], float]) -> None:
    """Let a rank ask for its use of the machine, for limits and clocks, and write to the null device."""
    if resource is not None:
        struct, endless = resource.struct_rusage, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        _put(resource, "getrusage", lambda who: struct((wtime(), 0.0, *[0] * 14)))
        _put(resource, "getrlimit", lambda kind: endless)
        _put(resource, "setrlimit", lambda kind, limits: None)
    _put(os, "times", lambda: os.times_result((wtime(), 0.0, 0.0, 0.0, wtime())))
    _put(os, "getpriority", lambda which, who: 0)
    _put(os, "nice", lambda increment: 0)
    _put(os, "umask", lambda mask: 0o022)
    _put(os, "getpgid", lambda pid: os.getpid())
    _put(os, "getsid", lambda pid: os.getpid())
    _put(os, "getlogin", lambda: "rank")
    _put(time, "clock_gettime", lambda clock: wtime())
    _put(time, "clock_gettime_ns", lambda clock: int(wtime() * 1e9))
    _put(time, "clock_getres", lambda clock: _CLOCK.resolution)
    _put(time, "get_clock_info", lambda name: _CLOCK)
    builtins.open = io.open = _open


_CLOCK = SimpleNamespace(implementation="charged time", monotonic=True, adjustable=False, resolution=1e-6)


def _put(module: object, name: str, function: Callable[..., object]) -> None:
    if hasattr(module, name):
        setattr(module, name, function)


def _with_null_device(plain: Callable[..., object]) -> Callable[..., Any]:
    """Return `open` that also opens the null device for writing, which a rank has already."""

    @wraps(plain)
    def opened(file: object, mode: str = "r", *args: object, **kwargs: object) -> object:
        path = os.fspath(file) if isinstance(file, os.PathLike) else file
        if path == os.devnull and isinstance(mode, str) and set(mode) & set("wax+"):
            kwargs["closefd"] = False  # of the standard output's, which is this device
            return plain(1, mode.replace("x", "w").replace("a", "w"), *args, **kwargs)
        return plain(file, mode, *args, **kwargs)

    return opened


#: made once, before ranks are forked
_open = _with_null_device(io.open)

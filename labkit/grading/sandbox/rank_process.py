"""One rank of a submission, in its own process: it runs the source it is given, and asks for everything else.

Whatever a submission changes in here (labkit, NumPy, json, this file) changes what this one process asks
for and nothing else: messages, times, counts, inputs of other ranks and the judgement are on the other side.
"""

from __future__ import annotations

import importlib
import linecache
import marshal
import operator
import os
import signal
import sys
from types import FrameType, ModuleType
from typing import Any, NoReturn

from labkit.grading.sandbox.caller import SUBMISSION, Caller, TimeUp
from labkit.grading.sandbox.imports import SHOWN_BY_NAME, Silent
from labkit.grading.sandbox.notes import installed, watch
from labkit.grading.sandbox.remote_module import install
from labkit.grading.sandbox.wire import decode, encode, read_frame
from labkit.process.confinement import seccomp

__all__ = ["drop_algorithms", "main", "preload"]

#: loaded before rights are given up; others can be imported where files can be read
_PRELOADED = """
    abc array bdb bisect cmath collections collections.abc contextlib copy copyreg dataclasses decimal enum
    fractions functools heapq io itertools json math numbers operator pickle queue random re statistics string
    struct textwrap time types typing warnings weakref
    numpy numpy.fft numpy.linalg numpy.ma numpy.polynomial numpy.random
    labkit labkit.comm labkit.comm.module labkit.context labkit.errors labkit.phantom labkit.local
    labkit.real.seeds labkit.sampling labkit.schedule labkit.schedule.powers
    labkit.grading.sandbox.remote_comm labkit.grading.sandbox.remote_module
    labkit.grading.sandbox.schedule_rows
"""


def preload() -> None:
    """Load what ranks need, once for all of them."""
    for name in _PRELOADED.split():
        importlib.import_module(name)
    from labkit.comm.module import simulated_module
    from labkit.local.costs import calibration
    from labkit.real.seeds import seed_rank

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
    caller = Caller(descriptor)
    job, parts = read_frame(descriptor)
    if is_strict:
        seccomp.install("reading rank" if may_open else "rank")
    elif not job["accepts_weak"]:
        os._exit(71)
    signal.signal(signal.SIGXCPU, _time_up)
    sys.argv = [SUBMISSION]
    sys.stdout = sys.stderr = caller
    caller.tell({"op": "begins"})  # what ends this process from here on is the submission's doing
    try:
        value = _run(caller, job, parts)
        arrays: list[Any] = []
        encoded = encode(value, arrays)
        caller.tell({"op": "result", "value": encoded}, arrays)
    except BaseException as error:
        caller.report(error)
    os._exit(0)  # whatever it has left behind: threads, exit handlers


def _time_up(number: int, frame: FrameType | None) -> NoReturn:
    raise TimeUp("the limit of CPU time is reached here")


def _run(caller: Caller, job: dict[str, Any], parts: list[memoryview]) -> Any:
    comm = install(caller, job)
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
        from labkit.grading.sandbox.schedule_rows import rows_of

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

    def __call__(self, task: int) -> Any:
        """Have a task done."""
        answer, parts = self._caller.ask({"op": "task", "task": operator.index(task)})
        return decode(answer["value"], parts)

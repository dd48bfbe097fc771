"""A verdict does not depend on how busy the machine is, nor on what a submission imports."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit.grading import bench
from labkit.grading.bench import SandboxBench
from labkit.grading.folder import _Worker
from labkit.grading.sandbox import Limits, Sandbox, budget, imports
from labkit.grading.sandbox.imports import imported_by
from labkit.grading.sandbox.outcome import Outcome
from labkit.grading.sandbox.wire import Frames, Idle, WireError, decode

LIMITS = Limits(cpu_s=1, wall_s=60)


def test_what_a_source_imports_is_loaded_once_for_all_ranks(sandbox: Sandbox) -> None:
    source = "import sys\nBEFORE = 'scipy.stats' in sys.modules\nimport scipy.stats\n"
    source += "def f(comm):\n    return BEFORE\n"
    outcome = sandbox.run(source, "f", 3, [()] * 3)
    assert (outcome.kind, outcome.results) == ("finished", [True] * 3), outcome.message


@pytest.mark.parametrize("name", ["jinja2.nodes", "mpl_toolkits.mplot3d", "pylab"])
def test_installed_packages_are_loaded_once_as_well_and_those_that_draw_are_not(
    sandbox: Sandbox, name: str
) -> None:
    pytest.importorskip(name.partition(".")[0])
    source = f"import sys\nBEFORE = {name!r} in sys.modules\nfrom {name} import *\nimport numpy\n"
    source += "def f(comm):\n    return BEFORE, 'matplotlib.figure' in sys.modules\n"
    outcome = sandbox.run(source, "f", 2, [()] * 2)
    assert outcome.is_finished, outcome.message
    assert outcome.results == [(name == "jinja2.nodes", False)] * 2
    if name == "pylab":
        own = (
            "from pylab import *\nf = lambda comm: plot([1]) and 0 or int(zeros(3).sum() + arange(3).sum())\n"
        )
        found = sandbox.run(own, "f", 1, [()])
        assert (found.kind, found.results) == ("finished", [3]), found.message


def test_a_package_that_ends_or_hangs_is_left_to_the_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "_TRIED_S", 1)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in {
        "ends_here": "import os; os._exit(0)", "hangs_here": "while True: pass", "fails_here": "1 / 0",
        "has_threads_here": "import threading, time; threading.Thread(target=time.sleep, args=(9,)).start()",
        "is_fine_here": "X = 1",
    }.items():  # fmt: skip
        (tmp_path / f"{name}.py").write_text(text)
        imports.load_modules([name])
        assert (name in sys.modules) == (name == "is_fine_here")


def test_only_modules_that_do_nothing_by_themselves_are_loaded() -> None:
    source = (
        "import antigravity, this, submission, os.path, no_such\nfrom scipy import stats\nfrom . import x\n"
    )
    assert imported_by(source + "def f():\n    import heapq as h\n") == [
        "scipy.linalg", "os.path", "no_such", "scipy", "scipy.stats", "heapq",
    ]  # fmt: skip
    assert imported_by("import mpl_toolkits.mplot3d, labkit.algorithms, mpi4py.futures, pytest, jinja2") == [
        "jinja2"
    ]
    assert imported_by("def f(:") == []


def test_what_only_shows_things_shows_nothing(sandbox: Sandbox) -> None:
    source = """
import matplotlib.pyplot as plt
import bokeh.plotting
from IPython.display import display as show, Image
from ipywidgets import interact
from labkit.grading.notebook import points
import labkit.plot as lp

fig, ax = plt.subplots()

@interact
def shown(k=1):
    return k

def f(comm):
    ax[0].plot([1, 2], label="x")
    with plt.style.context("dark"):
        plt.show()
    show(Image("x.png"))
    display(fig)
    get_ipython().run_line_magic("time", "x = 1")
    points("sort", "easy", f)
    lp.anything()
    return comm.rank
"""
    outcome = sandbox.run(source, "f", 2, [()] * 2)
    assert (outcome.kind, outcome.results) == ("finished", [0, 1]), outcome.message


class _Slow:
    """A sandbox whose first run of two meets a limit."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.worked_s, self.used = limits, 0.0, list[float]()

    def run(self, *_: Any, **__: Any) -> Outcome:
        self.used.append(self.limits.cpu_s)
        return Outcome("time" if len(self.used) % 2 else "finished", 1, "late")

    call = run


def test_a_run_that_met_a_limit_is_repeated_with_all_limits_before_it_counts() -> None:
    sandbox: Any = _Slow(replace(LIMITS, cpu_s=2))
    bench = SandboxBench(sandbox, "", "f")
    assert bench.run(1, [()]).is_finished
    bench.hurry()
    assert bench.rows([]).is_finished
    assert sandbox.used == [2, 2, 1, 2]
    assert sandbox.limits.cpu_s == 1, "the next one is in a hurry again"


def test_an_endless_run_is_still_found_out(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its time twice; the kernel counts it in ticks, and on a busy machine in parts of them."""
    worked_s, run = list[float](), sandbox.run

    def counted(*words: Any, **how: Any) -> Outcome:
        before_s = sandbox.worked_s
        outcome = run(*words, **how)
        worked_s.append(sandbox.worked_s - before_s)
        return outcome

    monkeypatch.setattr(sandbox, "run", counted)
    source = "def f(comm):\n    while True:\n        pass\n"
    outcome = SandboxBench(sandbox, source, "f").run(1, [()])
    assert outcome.kind == "time"
    assert len(worked_s) == 2
    assert sum(worked_s) > 1.5, "it had its time twice"


def _in_a_process(work: Any) -> int:
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return child


def test_who_is_alone_has_no_others_beside_it(tmp_path: Path) -> None:
    bench.use(tmp_path / "turns")
    notes = tmp_path / "notes"

    def note(word: str) -> None:
        with notes.open("a") as file:
            file.write(word)

    def other() -> None:
        with bench.beside_others():
            note("(")
            time.sleep(0.05)
            note(")")

    def lonely() -> None:
        with bench.alone():
            note("<")
            time.sleep(0.05)
            note(">")

    try:
        children = [_in_a_process(work) for work in (other, other, lonely, other, lonely, other, other)]
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 7
    finally:
        bench.use(None)
    text = notes.read_text()
    assert len(text) == 14
    assert text.count("<>") == 2, text
    for before in text.split("<")[:-1]:
        assert before.count("(") == before.count(")"), text


def test_time_in_the_queue_for_a_processor_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now, queued = [100.0], [5.0]
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(budget, "_busy_s", lambda pid: (now[0], queued[0] if pid == os.getpid() else 0.0))
    run = budget.Budget(replace(LIMITS, wall_s=10), [1])
    now[0] = 109
    assert not run.is_over()
    now[0], queued[0] = 111, 8
    assert not run.is_over()
    now[0] = 114
    assert run.is_over()
    now[0], queued[0] = 100 + 20 * 10, 1e9
    assert run.is_over(), "not for ever"


def test_a_sandbox_that_waits_for_a_processor_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now, queued = [100.0], [5.0]
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(budget, "_busy_s", lambda pid: (1.0, queued[0]))
    deadline = budget.PatientDeadline(1, 120)
    now[0] += 119
    assert not deadline.is_over()
    now[0], queued[0] = now[0] + 100, queued[0] + 150
    assert not deadline.is_over()
    now[0] += 60
    assert deadline.is_over()
    now[0], queued[0] = 100 + 20 * 120, 1e9
    assert deadline.is_over(), "not for ever"


#: naps of 0.4 s by a private futex with a limit of time: the kernel's filter leaves it to memory allocators
NAPS = """
import ctypes
import os
import platform
import struct

LIBC, WORD, TIME = ctypes.CDLL(None), ctypes.c_int(0), (ctypes.c_long * 2)(0, 400_000_000)
FUTEX = {"x86_64": 202, "aarch64": 98}[platform.machine()]

def nap():
    LIBC.syscall(FUTEX, ctypes.byref(WORD), 128, 0, TIME, None, 0)

"""
BETWEEN_CALLS = """
def f(comm):
    while True:
        nap()
        comm.Barrier()
"""
#: it computes for a moment between them: each look finds that it has worked
IN_A_MESSAGE = """
def f(comm):
    os.write(comm._caller.line.descriptor, struct.pack(">II", 100_000, 0))
    while True:
        nap()
        sum(range(10**6))
        os.write(comm._caller.line.descriptor, b" ")
"""


@pytest.mark.slow
@pytest.mark.parametrize("source", [BETWEEN_CALLS, IN_A_MESSAGE])
def test_short_naps_end_a_run_too(source: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is long enough to be found out by itself; together they would hold up the class."""
    monkeypatch.setattr(sandbox, "limits", Limits(wall_s=40, idle_s=1))
    outcome = sandbox.run(NAPS + source, "f", 1, [()])
    assert outcome.kind == "time", outcome
    assert outcome.message.startswith("the ranks slept for 4 s in all"), outcome


def test_a_system_that_does_not_say_who_works_does_not_blame_sleepers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(budget, "_busy_s", lambda pid: (5.0, 0.0) if pid == os.getpid() else None)
    run = budget.Budget(replace(LIMITS, idle_s=1), [1])
    now[0] += 30
    assert not run.is_over()
    monkeypatch.setattr(budget, "_busy_s", lambda pid: (5.0, 0.0))
    now[0] += 2
    assert run.is_over()


@pytest.mark.parametrize("name", [",b", "b,b", "(3b", "O8", "U4", "i4,i4", "f2, ", "2i4", "", "i"])
def test_a_dtype_that_is_no_plain_number_is_refused(name: str) -> None:
    with pytest.raises(WireError):
        decode({"a": [name, [1], 0, False]}, [bytes(8)])


@pytest.mark.slow
def test_bytes_that_trickle_in_are_no_work() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    looks = []

    def is_alive(come: int) -> bool:
        looks.append(come)
        theirs.send(b"\0")
        return len(looks) < 3

    theirs.send(b"\0")
    with ours, theirs, pytest.raises(Idle):
        Frames(ours.fileno()).read(time.monotonic() + 60, is_alive)
    assert looks == [1, 1, 1]


@pytest.mark.slow
def test_who_sleeps_while_a_large_message_is_taken_is_at_work() -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        while Path(f"/proc/{sleeper.pid}/stat").read_text().split()[2] != "S":
            time.sleep(0.01)
        watch = budget.SleepWatch(sleeper.pid, 2)
        assert [watch.is_busy(come) for come in (0, 1 << 17, 1 << 16, 0, 1 << 16, 0, 1)] == [True] * 6 + [
            False
        ]
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.slow
def test_a_grader_that_waits_for_a_processor_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    worked = iter([50.0, 90.0, 90.5])
    monkeypatch.setattr("labkit.grading.folder.worked_s", lambda pid: next(worked))
    monkeypatch.setattr("labkit.grading.folder.time.monotonic", lambda: 1000.0)

    def late(worker: _Worker) -> bool:
        worker.deadline_s = 0
        return worker.is_late()

    worker = _Worker("ada", type("P", (), {"pid": 1})(), None, 100.0, 0.0)  # type: ignore[arg-type]
    assert [late(worker) for _ in range(3)] == [False, False, True]

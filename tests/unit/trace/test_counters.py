"""Counters of the host: what the kernel says of the same thread, planted page faults, what is refused."""

from __future__ import annotations

import errno
import mmap
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit._kernels import RankLog
from labkit.errors import DataError, MachineError
from labkit.trace.counters import EVENTS, checked_counters, column_of, is_counted, refused
from tests.support.refusals import raises_code

PAGE = mmap.PAGESIZE
SOFTWARE = ("task-clock", "page-faults", "context-switches", "minor-faults", "major-faults")
states = RankLog(0, 1e9, False, False, True).count([EVENTS[name][:2] for name in SOFTWARE])
needs_counters = pytest.mark.skipif(
    not all(state == 0 for state in states), reason="this system lets nobody count its software events"
)


def touch(pages: int) -> None:
    """Use pages that were not there, one fault each."""
    memory = mmap.mmap(-1, pages * PAGE)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, pages * PAGE, PAGE):
        memory[at] = 1


def switches_of(one: resource.struct_rusage) -> int:
    return one.ru_nvcsw + one.ru_nivcsw


def sleepy(comm: Any, pages: int, sleeps: int) -> tuple[float, int, int, int]:
    """What the system itself says of this thread: CPU seconds, faults, switches, and those of the sleeps."""
    before = resource.getrusage(resource.RUSAGE_THREAD)
    with lk.phase("touch"):
        touch(pages * (comm.rank + 1))
    comm.Barrier()
    with lk.phase("sleep"):
        with lk.phase("deeply"):
            awake = resource.getrusage(resource.RUSAGE_THREAD)
            for _ in range(sleeps):
                time.sleep(1e-4)
            asleep = switches_of(resource.getrusage(resource.RUSAGE_THREAD)) - switches_of(awake)
        comm.Barrier()
    after = resource.getrusage(resource.RUSAGE_THREAD)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    faults = after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt
    return cpu, faults, switches_of(after) - switches_of(before), asleep


@pytest.mark.mpi
@needs_counters
@pytest.mark.parametrize("how", [{}, {"summary": True}, {"trace": True}], ids=str)
def test_counters_are_what_the_system_says_of_the_thread(how: dict[str, bool]) -> None:
    pages, sleeps = 700, 150
    run = lk.run(sleepy, 2, on="mpi", counters=SOFTWARE, args=(pages, sleeps), **how)
    assert (run.trace is not None) == bool(how.get("trace"))
    table = run.profile()
    of_rank = table.groupby("rank")
    for rank, (cpu_s, faults, switches, asleep) in enumerate(run.results):
        counted = {name: of_rank[column_of(name)].sum()[rank] for name in SOFTWARE}
        assert counted["page-faults"] == counted["minor-faults"] + counted["major-faults"]
        assert faults <= counted["page-faults"] <= faults + 100
        assert switches <= counted["context-switches"] <= switches + 20
        assert counted["task-clock"] == pytest.approx(cpu_s, rel=0.2, abs=0.02)
        own = table[table["rank"] == rank].set_index(["phase", "call"])
        there = own.loc[("touch", "computation"), "page_faults"]
        assert pages * (rank + 1) <= there <= pages * (rank + 1) + 100
        # on a busy host a sleep may be over before the thread has left its core
        assert sleeps / 2 < asleep <= own.loc[("sleep > deeply", "computation"), "context_switches"]
        assert own.loc[("touch", "computation"), "context_switches"] < asleep


@pytest.mark.mpi
@needs_counters
def test_metrics_are_derived_from_counters() -> None:
    run = lk.run(sleepy, 2, on="mpi", counters="page-faults, task-clock", args=(100, 1), trace=True)
    report = run.report().with_metric("rate", "page_faults / visits")
    path = report.path("touch")
    assert report.metric("page_faults").label == "page-faults"
    assert report.metric("task_clock_s").unit == "s"
    visits, faults = report.by_rank("visits", path), report.by_rank("page_faults", path)
    assert report.by_rank("rate", path).tolist() == (faults / visits).tolist()
    assert report.total("page_faults") == run.profile()["page_faults"].sum()


@pytest.mark.mpi
def test_a_counter_is_there_or_it_is_said_why_not() -> None:
    names = list(EVENTS)
    run = lk.run(sleepy, 1, on="mpi", counters=names, args=(10, 1))
    said = [note for note in run.notes if note.startswith("counters: ")]
    for name in names:
        lacks = column_of(name) not in run.profile()
        assert lacks == any(name in note and "not counted" in note for note in said), (name, said)


@pytest.mark.mpi
def test_without_being_asked_for_none_is_counted() -> None:
    run = lk.run(sleepy, 1, on="mpi", summary=True, args=(1, 1))
    assert not {*map(column_of, EVENTS)} & {*run.profile().columns}
    assert run.notes == []


def test_counters_belong_to_real_ranks() -> None:
    with raises_code(MachineError, "unsupported", 'on="mpi"'):
        lk.run(sleepy, 2, args=(1, 1), counters=["page-faults"])


def test_a_counter_nobody_knows_is_refused() -> None:
    with raises_code(MachineError, "unknown-name", "'page-fault'", "'page-faults'"):
        checked_counters("page-fault")
    with raises_code(MachineError, "unknown-name", "'cycle'"):
        lk.run(sleepy, 1, on="mpi", args=(1, 1), counters=["cycle"])


def test_expressions_name_counters_by_their_columns() -> None:
    for name in EVENTS:
        assert column_of(name).isidentifier()
    assert len({*map(column_of, EVENTS)}) == len(EVENTS)


@pytest.mark.parametrize(
    ("state", "share", "said"),
    [
        (0, 1.0, ""),
        (0, 0.625, "counted in 62% of the time"),
        (1, 1.0, "in the program's own code only"),
        (-errno.ENOENT, 1.0, "does not have it"),
        (-errno.EACCES, 1.0, "perf_event_paranoid"),
        (-errno.EPERM, 1.0, "perf_event_paranoid"),
        (-errno.EINVAL, 1.0, "ask for fewer"),
        (-errno.ENOSYS, 1.0, "no perf events"),
        (-errno.EMFILE, 1.0, "EMFILE"),
    ],
)
def test_every_refusal_has_its_reason(state: int, share: float, said: str) -> None:
    sentences = refused(["page-faults"], [state], share)
    assert len(sentences) == bool(said)
    assert all(said in one for one in sentences)
    assert is_counted("page-faults", state) == (state >= 0)


def test_what_never_happens_in_own_code_is_not_counted_as_none() -> None:
    assert not is_counted("context-switches", 1)
    assert "not counted" in refused(["context-switches"], [1])[0]


@needs_counters
def test_a_log_counts_from_the_begin_to_the_end_of_each_call() -> None:
    log = RankLog(0, 1e9, False, False, True)
    log.count([EVENTS["cycles"][:2], EVENTS["page-faults"][:2]])
    for pages in (0, 40, 3):
        log.enter(0, 0)
        touch(pages or 1)
        log.leave()
    rows = log.count_rows()
    gained = [after[1] - before[1] for before, after in zip(rows[::2], rows[1::2], strict=True)]
    assert len(rows) == 6
    assert gained[1] - gained[2] == pytest.approx(37, abs=6)
    log.restart()
    assert log.count_rows() == []


@needs_counters
def test_polls_that_become_one_call_are_counted_once() -> None:
    log = RankLog(0, 1e9, False, False, True)
    log.count([EVENTS["page-faults"][:2]])
    for _ in range(3):
        log.enter(0, 0)
        log.polled()
        log.leave()
    calls, rows = len(log.call_columns()["begin_s"]), log.count_rows()
    assert len(rows) == 2 * calls
    assert rows == sorted(rows)


@pytest.mark.mpi
@needs_counters
def test_the_command_line_writes_counters(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    line = [sys.executable, "-m", "labkit", "run", "-n", "2", "--on", "mpi", "--counters",
            "page-faults,context-switches", "prog.py"]  # fmt: skip
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert "profile in prog.profile.csv" in done.stderr
    heading = (tmp_path / "prog.profile.csv").read_text().splitlines()[0]
    assert heading.endswith("page_faults,context_switches")


def test_a_report_without_counters_has_no_metric_of_theirs() -> None:
    with raises_code(DataError, "unknown-name", "'page_faults'"):
        lk.run(sleepy_free, 2, trace=True).report().metric("page_faults")


def sleepy_free(comm: Any) -> None:
    comm.Barrier()

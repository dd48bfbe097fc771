"""Computation that nobody is charged for is told, and nothing else is mistaken for it."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest

import labkit as lk
from labkit import _kernels
from labkit.checks import REMARK, Uncharged
from labkit.sim.isolation import host_clock
from labkit.sim.runner import OwnCode


def work(seconds: float) -> None:
    """Compute for so much CPU time."""
    end = host_clock.thread_time() + seconds
    while host_clock.thread_time() < end:
        np.sort(np.random.default_rng(0).random(20_000))


def free(comm):
    work(0.1)
    comm.Barrier()


def charged(comm):
    work(0.1)
    lk.compute(0.1)
    comm.Barrier()


def talking(comm, times=1500):
    for _ in range(times):
        comm.allreduce(comm.rank)


def test_a_program_that_computes_for_nothing_is_told_so_with_the_remedy():
    run = lk.run(free, 2)
    assert run.notes == [REMARK]
    assert 'compute="measured"' in repr(run)
    assert run.makespan_s < 1e-3


@pytest.mark.parametrize(("program", "how"), [(charged, {}), (free, {"compute": "measured"}), (talking, {})])
def test_what_is_charged_or_only_talks_is_not_told(program, how):
    assert REMARK not in lk.run(program, 4, **how).notes


def test_a_sweep_and_its_study_say_it_once(tmp_path):
    study = lk.sweep(free, ranks=[2, 3], progress=False)
    assert [note for note in study.notes["remarks"] if note == REMARK] == [REMARK]
    assert repr(study).count("computation was free") == 1
    assert "computation was free" in repr(lk.load(study.save(tmp_path / "a.study")))


def test_runs_that_are_short_are_told_together():
    """As a sweep of pi is: each run computes for some milliseconds only."""

    def short(comm):
        work(0.006)
        comm.Barrier()

    study = lk.sweep(short, ranks=[1, 2, 3, 4, 5, 6, 7, 8], progress=False)
    assert study.notes["remarks"].count(REMARK) == 1
    assert REMARK not in lk.sweep(talking, ranks=[2, 3, 4], times=100, progress=False).notes["remarks"]
    assert REMARK not in lk.sweep(short, ranks=[1, 2, 3], compute="measured", progress=False).notes["remarks"]


def test_what_is_notable_is_a_share_that_was_seen_often():
    one = Uncharged(0.004, 0.01, 2)
    assert not one.is_notable
    one.add(Uncharged(0.02, 0.02, 3))
    assert (one.looks, one.is_notable) == (5, True)
    one.add(Uncharged(0.0, 0.2, 0))
    assert not one.is_notable


def test_it_ends_with_the_run_and_looks_at_its_own_thread():
    with OwnCode() as own, pytest.raises(ZeroDivisionError):
        raise ZeroDivisionError
    assert not own.found.is_notable
    notes = []
    thread = threading.Thread(target=lambda: notes.extend(lk.run(free, 2).notes))
    thread.start()
    thread.join()
    assert notes == [REMARK]
    assert "labkit-own-code" not in [one.name for one in threading.enumerate()]


def test_what_it_looks_at_lives_no_longer_than_without_it():
    """A rank's arrays are counted to the byte, so nothing may hold them while another thread looks."""
    thread, is_over = threading.get_ident(), threading.Event()
    before = sys.getswitchinterval()

    def look():
        while not is_over.is_set():
            code = _kernels.code_of_thread(thread, 64)
            assert all(type(file) is str for _, file in code)

    def held():
        array = np.zeros(3)
        time.sleep(1e-6)  # the other thread comes in between
        return len(array)

    looking = threading.Thread(target=look)
    memory = _kernels.ArrayMemory()
    sys.setswitchinterval(1e-5)
    looking.start()
    memory.install()
    try:
        for _ in range(1000):
            held()
            assert memory.now == 0
    finally:
        memory.uninstall()
        sys.setswitchinterval(before)
        is_over.set()
        looking.join()


def test_the_code_of_a_thread_is_told_from_within():
    module, file = _kernels.code_of_thread(threading.get_ident(), 1)[0]
    assert (module, file) == (__name__, __file__)
    assert _kernels.code_of_thread(0, 5) == []

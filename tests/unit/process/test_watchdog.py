"""A rank ends with the process that started it, also when that one is gone before the rank begins."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from labkit.process.watchdog import CLEANING_S, LISTEN_S, PIPE, STACK_SIGNAL, whereabouts

RANK = """
import faulthandler, sys, time
from labkit.process.watchdog import STACK_SIGNAL, tie_rank
directory = sys.argv[1]
faulthandler.register(STACK_SIGNAL, file=open(directory + "/rank-0.stack", "w"))
print("here", flush=True)  # before it may be ended
tie_rank(directory, directory + "/rank-0.shm")
time.sleep(60)
"""
#: how a stack names the rank's program
PROGRAM = 'File "<string>"'


@pytest.fixture
def job(tmp_path):
    """A job's directory, and a folder in shared memory."""
    directory, shared = tmp_path / "job", tmp_path / "shared"
    directory.mkdir()
    shared.mkdir()
    os.mkfifo(directory / PIPE)
    (directory / "folders").write_text(f"{directory}\0{shared}")
    (directory / "rank-0.shm").write_text(f"{tmp_path / 'segment'}\n")
    (tmp_path / "segment").write_text("of MPI")
    return directory


@pytest.fixture
def start(job):
    """Start ranks that end with the test."""
    started = []

    def call(owner=None):
        if owner is not None:  # the ranks may be out of its signals' reach
            (job / "owner").write_text(owner)
        process = subprocess.Popen([sys.executable, "-c", RANK, str(job)], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "here\n"
        return process

    yield call
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_for_stack(job):
    """Wait until a rank has written its stacks, of which the one of its program comes last."""
    until = time.monotonic() + 30
    # Not by "Current thread": a signal that a thread answers as it starts is nobody's in Python's eyes.
    while PROGRAM not in (found := (job / "rank-0.stack").read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("owner", [None, whereabouts()["boot"]])
def test_a_rank_lives_as_long_as_its_owner_and_removes_the_files(job, start, owner):
    held = os.open(job / PIPE, os.O_RDWR | os.O_NONBLOCK)
    rank = start(owner)
    with pytest.raises(subprocess.TimeoutExpired):
        rank.wait(timeout=0.5)
    os.close(held)
    assert rank.wait(timeout=30) < 0
    assert list(job.parent.iterdir()) == []


def test_a_rank_that_starts_when_its_owner_is_gone_does_not_wait_for_it(job, start):
    rank = start()
    assert rank.wait(timeout=30) < 0
    assert list(job.parent.iterdir()) == []


@pytest.mark.slow
def test_a_rank_that_finds_its_job_half_removed_lets_the_other_finish(job):
    """The first rank to leave takes the others along, through their launcher."""
    for name in ("folders", PIPE):
        (job / name).unlink()
    code = "import sys; from labkit.real.mpi.child import main; main(sys.argv[1])"
    environment = {**os.environ, "OMPI_COMM_WORLD_RANK": "0"}
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, str(job)], env=environment, timeout=60, check=False)
    assert done.returncode != 0
    assert time.monotonic() - begin >= CLEANING_S


def test_where_there_is_no_pipe_a_rank_lives_on(job, start):
    (job / PIPE).unlink()
    rank = start()
    with pytest.raises(subprocess.TimeoutExpired):
        rank.wait(timeout=2.0)
    assert job.exists()


def test_on_another_machine_the_pipe_says_nothing(job, start):
    rank = start("another boot")
    with pytest.raises(subprocess.TimeoutExpired):
        rank.wait(timeout=1.0)


def test_a_rank_that_cannot_be_signaled_is_asked_by_a_file(job, start):
    held = os.open(job / PIPE, os.O_RDWR | os.O_NONBLOCK)
    try:
        start(whereabouts()["boot"])
        (job / "stacks").write_text("another table of processes")
        assert PROGRAM in wait_for_stack(job)
    finally:
        os.close(held)


def test_one_that_can_be_signaled_is_not_asked_twice(job, start):
    held = os.open(job / PIPE, os.O_RDWR | os.O_NONBLOCK)
    try:
        rank = start(whereabouts()["boot"])
        (job / "stacks").write_text(whereabouts()["table"])
        os.kill(rank.pid, STACK_SIGNAL)
        wait_for_stack(job)
        time.sleep(4 * LISTEN_S)
        assert wait_for_stack(job).count(PROGRAM) == 1
    finally:
        os.close(held)

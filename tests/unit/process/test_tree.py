"""Finding and ending the processes of a job."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid

from labkit.process.tree import JOB_VARIABLE, end_processes, job_processes

SLEEPER = "import time; time.sleep(60)"


def _wait_for(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def test_processes_are_found_by_token_by_session_and_by_descent():
    token = uuid.uuid4().hex
    clean = {name: value for name, value in os.environ.items() if name != JOB_VARIABLE}
    tree = (
        "import subprocess, sys\n"
        f"a = subprocess.Popen([sys.executable, '-c', {SLEEPER!r}])\n"
        f"b = subprocess.Popen([sys.executable, '-c', {SLEEPER!r}], start_new_session=True)\n"
        f"{SLEEPER}\n"  # not a.wait(): it could end by itself between its child's death and its own
    )
    by_token = subprocess.Popen(
        [sys.executable, "-c", SLEEPER], env={**clean, JOB_VARIABLE: token}, start_new_session=True
    )
    root = subprocess.Popen([sys.executable, "-c", tree], env=clean, start_new_session=True)
    other = subprocess.Popen([sys.executable, "-c", SLEEPER], env={**clean, JOB_VARIABLE: token + "x"})
    try:
        _wait_for(lambda: len(job_processes(token, root.pid)) == 4)
        found = job_processes(token, root.pid)
        assert {by_token.pid, root.pid} < found
        assert other.pid not in found
        assert end_processes(token, root.pid) == set()
        assert by_token.wait(5) == root.wait(5) == -9
        assert job_processes(token, root.pid) == set()
        assert other.poll() is None
    finally:
        for process in (by_token, root, other):
            process.kill()
            process.wait()


def test_this_process_is_never_part_of_a_job(monkeypatch):
    assert os.getpid() not in job_processes("", os.getsid(0))

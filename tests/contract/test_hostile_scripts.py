"""Scripts that leave, crash, print anything or meet a full disk, through `labkit run`, simulated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.refusals import raises_code

HEAD = "import os, signal, sys\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"


@pytest.fixture
def labkit(tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def call(body, *options, **environment):
        (tmp_path / "prog.py").write_text(HEAD + body)
        command = [sys.executable, "-m", "labkit", "run", "-n", "2", *options, "prog.py"]
        done = subprocess.run(
            command, capture_output=True, timeout=60, check=False, cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(scratch), **environment},
        )  # fmt: skip
        assert list(scratch.iterdir()) == []
        return done

    return call


@pytest.mark.slow
@pytest.mark.parametrize("status", [0, 7])
def test_os_exit_names_the_rank_and_keeps_the_output(labkit, status):
    body = f"print('hello')\nif comm.rank == 1: os._exit({status})\ncomm.barrier()\n"
    done = labkit(body, "--json")
    record = json.loads(done.stdout)
    assert (done.returncode, record["exit"], record["error"]["rank"]) == (1, 1, 1)
    assert record["error"]["message"] == f"rank 1 left with os._exit({status}) at prog.py:5 in <module>"
    assert record["output"] == ["hello\n", "hello\n"]


def test_a_forked_process_may_leave_as_it_likes(labkit):
    done = labkit(
        "import warnings; warnings.simplefilter('ignore')  # Python 3.12 warns of a fork beside threads\n"
        "pid = os.fork()\nif pid == 0: os._exit(5)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert (done.returncode, done.stdout) == (0, b"5\n5\n")


def test_a_crash_says_where(labkit):
    done = labkit("if comm.rank == 1: os.kill(os.getpid(), signal.SIGSEGV)\ncomm.barrier()\n")
    assert done.returncode == 1, "as of a real rank"
    assert done.stderr == b"labkit run: rank 1 was ended by signal 11 (SIGSEGV) at prog.py:4 in <module>\n"


def test_a_rank_that_kills_itself_is_one_sentence(labkit):
    done = labkit("os.kill(os.getpid(), signal.SIGKILL)\n")
    assert done.returncode == 1, "as of a real rank"
    assert done.stderr == b"labkit run: rank 0 was ended by signal 9 (SIGKILL) at prog.py:4 in <module>\n"


def test_the_simulator_ends_with_its_parent(tmp_path):
    body = "with open('pid', 'w') as file: file.write(str(os.getpid()))\nwhile True: pass\n"
    (tmp_path / "prog.py").write_text(HEAD + body)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "labkit", "run", "-n", "2", "--timeout", "50", "prog.py"]
    parent = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "TMPDIR": str(scratch)})
    file = tmp_path / "pid"
    _wait_until(lambda: file.exists() and file.read_text())
    parent.kill()
    parent.wait()
    _wait_until(lambda: not _is_alive(int(file.read_text())) and not list(scratch.iterdir()))


def _wait_until(is_done):
    deadline = time.monotonic() + 20
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_an_alarm_ends_its_rank_in_simulated_time(labkit):
    body = "import time\nsignal.alarm(5000)\ntime.sleep({})\nprint(time.monotonic() < 5000)\n"
    done = labkit(body.format(6000))
    assert done.returncode
    assert f"left with exit code {128 + signal.SIGALRM}" in done.stderr.decode()
    assert labkit(body.format(4000)).returncode == 0


def test_anything_can_be_printed(labkit):
    body = "print('\\ud800 \\u2211'); sys.stdout.buffer.write(b'\\xff!\\n')\n"
    done = labkit(body, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout == b"\\ud800 \\u2211\n\\ufffd!\n" * 2


def test_output_has_a_limit(monkeypatch):
    import labkit as lk
    from labkit.sim import output

    monkeypatch.setattr(output, "OUTPUT_LIMIT", 1000)

    def program(comm):
        while True:
            print("x" * 99)

    with raises_code(lk.errors.RankError, "too-large", "1,000"):
        lk.run(program, 2)


def test_no_room_for_the_answer(tmp_path, monkeypatch):
    from labkit.errors import MachineError
    from labkit.launch.run import run
    from labkit.sim import script

    monkeypatch.setattr(script, "_run_child", lambda *given: script.NO_SPACE)
    (tmp_path / "prog.py").write_text("")
    with raises_code(MachineError, "unwritable-file", "TMPDIR"):
        run(tmp_path / "prog.py", 2, on="star")

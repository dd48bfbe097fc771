"""What ranks of a script print: standard output and error apart, as it comes, whoever prints it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import labkit as lk

HEAD = """import os, subprocess, sys, threading, time
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank = comm.rank
"""
BODY = """
print("out", flush=True)
print("error", file=sys.stderr)
os.write(1, b"descriptor 1\\n"); os.write(2, b"descriptor 2\\n")
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
os.system("echo shell")
subprocess.run(["echo", "child"])
"""
PRINTED = ["out", "descriptor 1", "thread", "shell", "child"]


def command(folder: Path, body: str, *words: str) -> list[str]:
    (folder / "prog.py").write_text(HEAD + body)
    return [sys.executable, "-m", "labkit", "run", "-n", "2", *words, str(folder / "prog.py")]


def test_both_streams(tmp_path):
    done = subprocess.run(command(tmp_path, BODY), capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines() == 2 * PRINTED
    assert done.stderr.splitlines()[:4] == 2 * ["error", "descriptor 2"]


def test_a_run_keeps_what_went_past_python(tmp_path):
    command(tmp_path, BODY)
    run = lk.run(tmp_path / "prog.py", 2, "star")
    assert run.output == ["\n".join([PRINTED[0], "error", *PRINTED[1:], ""])] * 2


def test_lines_appear_while_the_ranks_run_and_survive_the_end(tmp_path):
    body = "print('from', rank)\ncomm.barrier()\nprint('half', end='', flush=True)\nwhile True: pass\n"
    with subprocess.Popen(command(tmp_path, body), stdout=subprocess.PIPE, text=True) as running:
        assert [running.stdout.readline() for _ in range(2)] == ["from 0\n", "from 1\n"]
        time.sleep(0.5)
        running.send_signal(signal.SIGTERM)
        assert running.stdout.read() == "half"
        assert running.wait(30) == -signal.SIGTERM


def test_an_end_of_all_ranks_keeps_what_was_printed(tmp_path):
    for end, code in (("comm.Abort(7)", 7), ("os._exit(3)", 1), ("1 / 0", 1)):
        body = f"sys.stdout.write('begun')\ncomm.barrier()\nif rank == 1:\n    {end}\ncomm.barrier()\n"
        done = subprocess.run(
            command(tmp_path, body), capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stdout) == (code, "begunbegun"), end


def test_a_failed_test_of_one_rank_is_no_error_of_the_others(tmp_path):
    body = """
import unittest
class Tests(unittest.TestCase):
    def test_one(self):
        self.assertNotEqual(rank, 1)
        comm.barrier()
unittest.main()
"""
    done = subprocess.run(command(tmp_path, body), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.count("FAIL: test_one") == 1
    assert "ERROR" not in done.stderr
    assert "RunEnded" not in done.stderr


def test_reducers_of_a_program_leave_the_report_alone(tmp_path):
    """As tblib registers one for every class of exceptions."""
    body = """
import copyreg
def refuse(error):
    raise RuntimeError("not pickled")
def register(kind):
    for one in kind.__subclasses__():
        copyreg.pickle(one, refuse); register(one)
register(BaseException)
if rank == 1:
    1 / 0
comm.barrier()
"""
    done = subprocess.run(command(tmp_path, body), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "rank 1 failed: ZeroDivisionError" in done.stderr


def test_messages_never_received_are_named_unless_told_otherwise(tmp_path):
    body = "if rank == 0:\n    comm.send(1, 1)\n"
    for words, count in (((), 1), (("--no-warnings",), 0)):
        done = subprocess.run(
            command(tmp_path, body, *words), capture_output=True, text=True, timeout=120, check=True
        )
        assert done.stderr.count("which was never received") == count

"""`labkit run --on mpi` and `labkit doctor` with a real MPI."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("nothing_left")]

SCRIPT = """
import sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
print("rank", comm.rank, "of", comm.size, sys.argv[1:])
comm.barrier()  # a rank that ends first takes the others along, printed or not
if "raise" in sys.argv and comm.rank == 1:
    raise ValueError("boo")
if "wait" in sys.argv:
    comm.recv(source=(comm.rank + 1) % comm.size)
if "exit" in sys.argv:
    sys.exit(7 * comm.rank)
"""


@pytest.fixture
def labkit(tmp_path):
    script = tmp_path / "prog.py"
    script.write_text(SCRIPT)

    def call(*arguments, behind=()):
        middle = [str(script)] if arguments[0] == "run" else []
        return subprocess.run(
            [sys.executable, "-m", "labkit", *arguments, *middle, *behind],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    return call


def test_output_on_stdout_and_the_rest_on_stderr(labkit):
    done = labkit("run", "-n", "2", "--on", "mpi", behind=["a", "--json"])
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {r} of 2 ['a', '--json']" for r in range(2)]
    assert "prog.py: 2 ranks on real MPI, makespan" in done.stderr


def test_output_appears_while_ranks_run_and_once(tmp_path):
    script, seen = tmp_path / "prog.py", tmp_path / "seen"
    script.write_text(
        "import os, sys, time\nfrom mpi4py import MPI\n"
        "print('begins', MPI.COMM_WORLD.rank)\n"
        f"while not os.path.exists({str(seen)!r}):\n    time.sleep(0.01)\n"
        "print('ends', end='')\nprint('aside', file=sys.stderr)\n"
    )
    words = [sys.executable, "-m", "labkit", "run", "-n", "2", "--on", "mpi", "--timeout", "240", str(script)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        first = [process.stdout.readline() for _ in range(2)]
        seen.touch()
        rest, aside = process.communicate(timeout=300)
    assert sorted(first) == ["begins 0\n", "begins 1\n"]
    assert (rest, process.returncode) == ("endsends", 0)
    assert aside.count("aside\n") == 2


def test_json_is_alone_on_stdout(labkit):
    done = labkit("run", "--json", "-n", "2", "--on", "mpi")
    record = json.loads(done.stdout)
    assert (record["ranks"], record["on"], record["model"], record["exit"]) == (2, "mpi", None, 0)
    assert record["messages"] is None
    assert 0 < record["makespan_s"] < record["host_seconds"]
    assert record["output"] == ["rank 0 of 2 []\n", "rank 1 of 2 []\n"]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("word", "code", "words"),
    [
        ("raise", 1, "rank 1 failed: ValueError: boo"),
        ("exit", 1, "the rank called sys.exit(7)"),
        ("wait", 4, "deadlock: 2 of 2 ranks wait for what can never happen"),
    ],
)
def test_failures_have_their_exit_codes(labkit, word, code, words):
    done = labkit("run", "-n", "2", "--on", "mpi", "--timeout", "120", behind=[word])
    assert done.returncode == code
    assert words in done.stderr
    assert "labkit/launch" not in done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {r} of 2 ['{word}']" for r in range(2)]


def test_failure_as_json(labkit):
    done = labkit("run", "--json", "-n", "2", "--on", "mpi", behind=["raise"])
    record = json.loads(done.stdout)
    assert (done.returncode, record["exit"]) == (1, 1)
    assert (record["error"]["kind"], record["error"]["rank"]) == ("RankError", 1)
    assert 'raise ValueError("boo")' in record["error"]["traceback"]
    assert record["output"][1].startswith("rank 1 of 2")


@pytest.mark.slow
def test_doctor_tries_real_mpi(labkit):
    record = json.loads(labkit("doctor", "--json").stdout)
    (mpi,) = [check for check in record["checks"] if check["name"] == "mpi"]
    assert mpi["status"] == "ok"
    assert "2 ranks agree" in mpi["found"]
    (cluster,) = [check for check in record["checks"] if check["name"] == "cluster"]
    assert cluster["status"] == "ok"
    assert "2 ranks agree" in cluster["found"]

"""`labkit run` of one unmodified script on both machines: output, exit codes, JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

SCRIPT = """
import sys
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
print("rank", comm.rank, "of", comm.size, sys.argv[1:])
total = np.empty(6)
comm.Allreduce(np.ones(6), total)
if "raise" in sys.argv and comm.rank == 1:
    raise ValueError("boo")
if "exit" in sys.argv and comm.rank == 1:
    sys.exit(7)
if "wait" in sys.argv:
    comm.recv(source=(comm.rank + 1) % comm.size)
if "loop" in sys.argv:
    while True:
        pass
comm.barrier()
"""
MACHINES = [pytest.param("mpi", marks=pytest.mark.mpi), "star:8"]


@pytest.fixture
def labkit(tmp_path):
    (tmp_path / "prog.py").write_text(SCRIPT)

    def call(*arguments, behind=()):
        command = [sys.executable, "-m", "labkit", "run", "-n", "3", *arguments, "prog.py", *behind]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
        )  # fmt: skip

    return call


def printed(*words):
    return "".join(f"rank {rank} of 3 {list(words)}\n" for rank in range(3))


@pytest.mark.parametrize("on", MACHINES)
def test_output_and_json(labkit, on):
    done = labkit("--on", on, behind=["a", "--b"])
    assert (done.returncode, done.stdout) == (0, printed("a", "--b"))
    assert "prog.py: 3 ranks on" in done.stderr
    done = labkit("--json", "--on", on)
    record = json.loads(done.stdout)
    assert {"ranks", "on", "model", "makespan_s", "messages", "host_seconds", "exit"} <= set(record)
    assert (record["ranks"], record["on"], record["exit"]) == (3, on, 0)
    assert "".join(record["output"]) == printed()
    assert 0 < record["makespan_s"] < record["host_seconds"]
    assert done.stderr == ""
    assert (record["model"], record["messages"] is None) == ((None, True) if on == "mpi" else ("lab", False))


@pytest.mark.parametrize("on", MACHINES)
def test_ranks_have_one_thread_of_linear_algebra_unless_the_environment_says_otherwise(
    labkit, on, tmp_path, monkeypatch
):
    (tmp_path / "prog.py").write_text(
        "import os, mpi4py.MPI\nprint(os.environ['OMP_NUM_THREADS'], os.environ['MKL_NUM_THREADS'])\n"
    )
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert labkit("--on", on).stdout == "3 1\n" * 3


@pytest.mark.slow
@pytest.mark.parametrize("on", MACHINES)
@pytest.mark.parametrize(
    ("word", "code", "words"),
    [
        ("raise", 1, "rank 1 failed: ValueError: boo"),
        ("exit", 1, "sys.exit(7)"),
        ("loop", 5, "limit"),
        ("wait", 4, "deadlock: 3 of 3 ranks wait"),
    ],
)
def test_failures(labkit, on, word, code, words):
    limit = "5" if word == "loop" else "50"  # all others end by themselves, on a busy machine later
    calls = (["--on", on, "--timeout", limit], ["--json", "--on", on, "--timeout", limit])
    with ThreadPoolExecutor() as pool:  # they mostly wait
        done, as_json = pool.map(lambda call: labkit(*call, behind=[word]), calls)
    assert done.returncode == code, done.stderr
    assert words in done.stderr or "within 5 s" in done.stderr
    assert "labkit/" not in done.stderr
    # A real rank may be ended before it has printed; a simulated one that never lets go keeps others from it.
    assert set(done.stdout.splitlines()) <= set(printed(word).splitlines())
    assert f"rank 1 of 3 ['{word}']\n" in done.stdout or word == "loop"
    record = json.loads(as_json.stdout)
    assert record["exit"] == code
    assert record["error"]["message"]


def test_trace_of_a_simulated_run(labkit, tmp_path):
    done = labkit("--json", "--trace", behind=[])
    record = json.loads(done.stdout)
    lines = (tmp_path / record["trace"]).read_text().splitlines()
    assert record["trace"] == "prog.trace.csv"
    assert len(lines) == 1 + record["messages"]
    assert {"source", "destination", "bytes"} <= set(lines[0].split(","))


@pytest.mark.slow
def test_summary_of_a_run(labkit, tmp_path):
    done = labkit("--json", "--summary", behind=[])
    record = json.loads(done.stdout)
    head, *rows = (tmp_path / record["profile"]).read_text().splitlines()
    assert record["profile"] == "prog.profile.csv"
    assert record["trace"] is None
    column = head.split(",").index("messages")
    assert sum(int(row.rsplit(",", len(head.split(",")) - column)[1]) for row in rows) == record["messages"]


@pytest.mark.slow
def test_options_change_the_simulated_machine(labkit):
    def makespan(*arguments):
        return json.loads(labkit("--json", *arguments).stdout)["makespan_s"]

    plain = makespan("--on", "star:8")
    assert makespan("--on", "star:8") == plain
    assert makespan("--on", "star:8", "--model", "smpi") != plain
    assert makespan("--on", "star:8,lat=1ms") > plain
    ring = makespan("--on", "star:8", "--coll", "allreduce=ring")
    assert ring != plain
    assert makespan("--on", "star:8", "--coll", "allreduce=recursive_doubling") != ring

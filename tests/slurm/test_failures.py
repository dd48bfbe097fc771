"""What can go wrong with a batch job, each with a sentence that says what and where."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time

import pytest

import labkit as lk
from labkit.errors import DeadlockError, MachineError, RankError, TimeLimitError
from tests.support.refusals import raises_code


def hello(comm):
    return comm.rank


def raising(comm):
    comm.Barrier()
    if comm.rank == 3:
        print("about to fail")
        raise ValueError("no more keys")
    comm.Barrier()


def test_a_rank_that_raises_is_named_with_its_traceback(slurm):
    with raises_code(RankError, "rank-failed", "ValueError: no more keys") as caught:
        lk.run(raising, 4, on=slurm.on(ranks_per_node=2), timeout_s=60)
    error = caught.value
    assert error.rank == 3
    assert 'raise ValueError("no more keys")' in error.traceback
    assert error.output[3] == "about to fail\n"


def killed(comm):
    comm.Barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), 9)
    comm.Barrier()


def test_a_rank_that_is_killed_is_named(slurm):
    with raises_code(RankError, "rank-failed", "rank 1", "signal 9"):
        lk.run(killed, 2, on=slurm.on(nodes=1), timeout_s=60)


def test_a_rank_that_is_killed_under_srun_is_named(slurm, mpich):
    with raises_code(RankError, "rank-failed", "rank 1", "signal 9"):
        lk.run(killed, 2, on=slurm.on(nodes=2, mpi=mpich, launcher="srun --mpi=pmi2"), timeout_s=60)


def hanging(comm):
    if comm.rank != 1:
        comm.recv(source=1)  # never sent
    return comm.rank


def test_a_hang_ends_with_a_report_from_all_nodes(slurm):
    begin = time.monotonic()
    facts = ("12 s", "ranks 0, 2-3:", "comm.recv(source=1)  # never sent", "rank 1: had finished")
    with raises_code(TimeLimitError, "time-limit", *facts):
        lk.run(hanging, 4, on=slurm.on(ranks_per_node=2, time="5"), timeout_s=12)
    assert time.monotonic() - begin < 300  # it did not wait for the job's own limit


def test_a_deadlock_on_one_node_is_told_with_its_cycle(slurm):
    def facing(comm):
        comm.recv(source=1 - comm.rank)

    with pytest.raises(DeadlockError) as caught:
        lk.run(facing, 2, on=slurm.on(nodes=1, time="5"), timeout_s=120)
    assert caught.value.cycle == [0, 1]
    assert f"{__file__}:" in caught.value.waits[0][0]


def test_after_a_hang_the_next_point_of_the_allocation_runs(slurm, mpich):
    with pytest.warns(UserWarning, match="n=1 failed"):
        study = lk.sweep(
            now_and_then, 2, on=slurm.on(nodes=2, mpi=mpich, launcher="srun --mpi=pmi2"), n=[1, 2],
            repeats=1, warmup=0, timeout_s=8,
        )  # fmt: skip
    assert [failure["kind"] for failure in study.failures] == ["TimeLimitError"]
    assert set(study.data["n"]) == {2}


def now_and_then(comm, n):
    if n == 1 and comm.rank == 0:
        comm.recv(source=1)
    return n


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"partition": "nowhere"}, "see partition='nowhere'"),
        ({"time": "10:00:00"}, "see time='10:00:00'"),
        ({"constraint": "gpu"}, "see constraint='gpu'"),
        ({"mem": "900G"}, "see mem='900G'"),
        ({"extra": ["--reservation=none"]}, "eservation"),
        ({"ranks_per_node": 64}, "see ranks_per_node=64"),
    ],
)
def test_a_job_that_is_rejected_names_the_option(slurm, options, fact):
    with raises_code(MachineError, "scheduler-failed", fact):
        lk.run(hello, 64 if "ranks_per_node" in options else 1, on=slurm.on(**options))
    assert list(slurm.folder.iterdir()) == []


def test_a_job_that_waits_says_why_and_can_be_left(slurm, capsys, monkeypatch):
    from labkit.real.slurm import collect as waiting

    monkeypatch.setattr(waiting.Line, "_is_shown", True, raising=False)
    told = []
    monkeypatch.setattr(waiting.Line, "__call__", lambda self, text: told.append(text))
    cluster = slurm.on(partition="main", extra="--begin=now+1hour", wait_s=6)
    with raises_code(TimeLimitError, "time-limit", "6 s", "pending"):
        lk.run(hello, 1, on=cluster)
    assert any("pending (BeginTime)" in text for text in told)
    (job,) = lk.slurm_jobs(cluster)
    assert job.state == "pending"
    assert job.row()[1] == "pending (BeginTime)"


def test_a_job_that_is_cancelled_while_it_waits(slurm):
    cluster = slurm.on(extra="--begin=now+1hour")
    later = threading.Timer(0.1, _cancel_when_queued, [slurm])
    later.start()
    with raises_code(MachineError, "machine-failed", "hello", "run the same call again"):
        lk.run(hello, 1, on=cluster)
    later.join()


def _cancel_when_queued(slurm, state="PENDING"):
    (number,) = slurm.wait_for(lambda: slurm.ask("squeue", "-h", "-t", state, "-o", "%i").split())
    slurm.ask("scancel", number)


def sleeping(comm):
    time.sleep(300)


def test_a_job_that_is_cancelled_while_it_runs(slurm):
    later = threading.Timer(0.1, _cancel_when_queued, [slurm, "RUNNING"])
    later.start()
    with raises_code(MachineError, "machine-failed", "sleeping"):
        lk.run(sleeping, 2, on=slurm.on(), timeout_s=None)
    later.join()


def test_the_time_limit_of_the_job_gives_a_report_in_time(slurm):
    with raises_code(TimeLimitError, "time-limit", "time=", "ranks 0-1:", "time.sleep(300)"):
        lk.run(sleeping, 2, on=slurm.on(time=1, nodes=2), timeout_s=None)


def test_a_job_that_slurm_itself_ends_at_its_limit(slurm):
    with raises_code(TimeLimitError, "time-limit", "time="):
        lk.run(hello, 1, on=slurm.on(time=1, setup="sleep 400"))


def test_a_folder_that_the_nodes_do_not_see(slurm):
    cluster = slurm.on(extra="--begin=now+4")

    def take_away():
        (folder,) = slurm.wait_for(lambda: list(slurm.folder.glob("*/submitted.json")))
        shutil.rmtree(folder.parent)

    later = threading.Thread(target=take_away)
    later.start()
    with raises_code(MachineError, "not-started"):
        lk.run(hello, 1, on=cluster)
    later.join()


def test_a_python_without_labkit(slurm, tmp_path):
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(MachineError) as caught:
        lk.run(hello, 1, on=slurm.on(python=str(bare)))
    text = str(caught.value)
    assert "could not begin: the Python of the compute node" in text
    assert "cannot import labkit and mpi4py: ModuleNotFoundError: No module named 'labkit'" in text
    with raises_code(MachineError, "scheduler-failed", "/no/such/python"):
        lk.run(hello, 1, on=slurm.on(python="/no/such/python"))


def test_a_launcher_that_the_nodes_do_not_have(slurm):
    with raises_code(MachineError, "scheduler-failed", "/no/such/mpiexec"):
        lk.run(hello, 1, on=slurm.on(launcher="/no/such/mpiexec"))


def greedy(comm):
    held = [bytearray(1 << 20) for _ in range(2500)]
    for one in held:
        one[::4096] = b"x" * len(one[::4096])
    time.sleep(60)
    return len(held)


def test_more_memory_than_the_job_has(slurm):
    with raises_code(MachineError, "out-of-memory", "mem='900M'"):
        lk.run(greedy, 1, on=slurm.on(mem="900M"), timeout_s=90)


def test_without_slurm_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises_code(MachineError, "missing-tool", "sbatch"):
        lk.run(hello, 1, on=lk.slurm(folder=str(tmp_path / "jobs")))
    assert list((tmp_path / "jobs").iterdir()) == []

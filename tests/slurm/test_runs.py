"""Runs and sweeps as batch jobs of a real Slurm."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

import labkit as lk

OFFSET = 10


def whereabouts(comm, plus=0):
    with lk.phase("sum"):
        total = comm.allreduce(comm.rank)
    print(f"rank {comm.rank} of {comm.size}")
    return comm.rank, total + OFFSET + plus, os.environ["SLURMD_NODENAME"]


def check(run, ranks=4):
    results = run.results
    assert [(rank, total) for rank, total, _ in results] == [
        (r, ranks * (ranks - 1) // 2 + OFFSET) for r in range(ranks)
    ]
    nodes = [node for _, _, node in results]
    assert nodes[0] == nodes[1] != nodes[2] == nodes[3]
    assert run.output == [f"rank {r} of {ranks}\n" for r in range(ranks)]
    assert list(run.phases["phase"].unique()) == ["sum"]
    assert run.machine["nodes"] == 2
    assert run.machine["cluster"] == "testcluster"
    assert run.makespan_s > 0


def test_ranks_over_two_nodes_with_mpiexec(slurm):
    run = lk.run(whereabouts, 4, on=slurm.on(ranks_per_node=2), timeout_s=60)
    check(run)
    assert run.on == "slurm"
    assert run.machine["partition"] == "main"
    assert "Open MPI" in run.machine["library"]


def test_ranks_over_two_nodes_with_mpich(slurm, mpich):
    run = lk.run(whereabouts, 4, on=slurm.on(nodes=2, mpi=mpich), timeout_s=60)
    check(run)
    assert "MPICH" in run.machine["library"]


def test_ranks_over_two_nodes_with_srun(slurm, mpich):
    run = lk.run(whereabouts, 4, on=slurm.on(nodes=2, mpi=mpich, launcher="srun --mpi=pmi2"), timeout_s=60)
    check(run)
    assert "MPICH" in run.machine["library"]
    assert run.machine["mpi"].startswith("srun of Slurm")


def test_repetitions_are_one_launch_and_one_job(slurm):
    run = lk.run(whereabouts, 2, on=slurm.on(), repeats=3, kwargs={"plus": 5}, timeout_s=60)
    assert [one.results[0][1] for one in run.repetitions] == [1 + OFFSET + 5] * 3
    assert len(slurm_jobs(slurm)) == 1


def slurm_jobs(slurm):
    return lk.slurm_jobs(slurm.on())


def test_a_profile_chooses_the_partition_and_the_options_win(slurm, tmp_path):
    folder = tmp_path / "config" / "labkit"
    folder.mkdir(parents=True)
    (folder / "slurm.toml").write_text(
        f'[default]\nfolder = "{slurm.folder}"\npartition = "locked"\n\n'
        '[quick]\npartition = "short"\ntime = "1"\nconstraint = "node3"\n'
    )
    run = lk.run(whereabouts, 1, on="slurm:quick", timeout_s=30)
    assert run.on == "slurm:quick"
    assert (run.machine["partition"], run.results[0][2]) == ("short", "n3")
    run = lk.run(whereabouts, 1, on="slurm:quick", timeout_s=30, constraint="node2")
    assert run.results[0][2] == "n2"


def sleepy(comm, n=1):
    return comm.allreduce(n)


def test_a_sweep_is_one_job_for_each_number_of_nodes(slurm):
    study = lk.sweep(sleepy, ranks=[1, 2, 4], on=slurm.on(ranks_per_node=2), repeats=2, n=[1, 2])
    spans = study.data[study.data["metric"] == "makespan_s"]
    assert len(spans) == 3 * 2 * 2
    assert set(spans["on_cluster"]) == {"testcluster"}
    assert set(spans["on_partition"]) == {"main"}
    assert {ranks: set(rows["on_nodes"]) for ranks, rows in spans.groupby("ranks")} == {
        1: {1},
        2: {1},
        4: {2},
    }
    assert spans["is_valid"].dtype == bool
    assert study.parameters == ["ranks", "n"]
    assert [(job.ranks, job.points) for job in sorted(slurm_jobs(slurm), key=lambda job: job.ranks)] == [
        ([1, 2], 4), ([4], 2),
    ]  # fmt: skip


def test_a_sweep_in_a_single_allocation(slurm):
    study = lk.sweep(sleepy, ranks=[1, 2, 4], on=slurm.on(ranks_per_node=2, max_jobs=1), repeats=1, warmup=0)
    assert sorted(study.data.loc[study.data["metric"] == "makespan_s", "ranks"]) == [1, 2, 4]
    (job,) = slurm_jobs(slurm)
    assert (job.ranks, job.done, job.state) == ([1, 2, 4], 3, "completed")


def test_a_script_from_the_command_line(slurm, tmp_path):
    (tmp_path / "neighbor.py").write_text("WORD = 'hello'\n")
    script = tmp_path / "prog.py"
    script.write_text(
        "import sys\nfrom mpi4py import MPI\nimport neighbor\n"
        "print(neighbor.WORD, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, sys.argv[1:])\n"
    )
    command = [sys.executable, "-m", "labkit", "run", "-n", "2", "--on", slurm.spec("nodes=2"), "--json"]
    done = subprocess.run(
        [*command, str(script), "a", "b"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["output"] == [f"hello {rank} 2 ['a', 'b']\n" for rank in range(2)]
    assert (record["on"], record["machine"]["nodes"]) == ("slurm", 2)


def test_a_job_needs_no_network(slurm, tmp_path):
    wrapper = tmp_path / "python-without-network"
    wrapper.write_text(
        f'#!/bin/sh\nexec unshare --net sh -c \'ip link set lo up; exec "$@"\' sh {sys.executable} "$@"\n'
    )
    wrapper.chmod(0o755)
    probe = subprocess.run([str(wrapper), "-c", "pass"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no network namespaces here (unshare --net, ip)")
    # The nodes of this cluster are one machine: Open MPI would ask srun, over the network, for a neighbor.
    local = "export PRTE_MCA_ras=^slurm PRTE_MCA_plm=^slurm"
    run = lk.run(interfaces, 2, on=slurm.on(nodes=1, python=str(wrapper), setup=local), timeout_s=60)
    assert run.results == [["lo"], ["lo"]]


def interfaces(comm):
    comm.Barrier()
    return sorted(name for _, name in socket.if_nameindex())


def test_modules_are_loaded_and_lines_are_run(slurm, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bash_profile").write_text(
        'module() { [ "$2" != gone ] && export LOADED="$LOADED $2"; }\n'  # stands for a site's own
    )
    monkeypatch.setenv("HOME", str(home))
    run = lk.run(
        lambda comm: os.environ["LOADED"], 1, on=slurm.on(modules=["gcc/13", "openmpi"]), timeout_s=30
    )
    assert run.results == [" gcc/13 openmpi"]
    with pytest.raises(lk.errors.MachineError, match=r"could not begin: module load gone failed on"):
        lk.run(whereabouts, 1, on=slurm.on(modules=["gone"]), timeout_s=30)


def exchanging(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    with lk.phase("ring"):
        comm.sendrecv([comm.rank] * 50, right, 1, None, left, 1)
    half = comm.Split(comm.rank % 2)
    half.allreduce(comm.rank)
    lk.compute(flops=1e6)


def failing(comm):
    comm.barrier()
    if comm.rank == 1:
        raise ValueError("no luck")
    comm.recv(source=1)


def test_a_run_recorded_over_two_nodes_is_the_simulated_one(slurm, tmp_path):
    simulated, real = tmp_path / "simulated.txt", tmp_path / "real.txt"
    lk.run(exchanging, 4, "star:4", trace_ti=simulated)
    on = slurm.on(ranks_per_node=2)
    run = lk.run(exchanging, 4, on, trace_ti=real, compute="charged", timeout_s=60)
    assert real.read_text() == simulated.read_text()
    assert "recorded as a time-independent trace" in run.notes[-1]
    assert lk.replay(real, "star:4").makespan_s == lk.replay(simulated, "star:4").makespan_s
    lk.run(exchanging, 4, on, timeout_s=60)  # not recorded: another job
    assert len(slurm_jobs(slurm)) == 2


def test_a_recorded_run_that_fails_or_hangs_leaves_what_there_was(slurm, tmp_path):
    on = slurm.on(ranks_per_node=2)
    with pytest.raises(lk.errors.RankError, match="no luck") as failed:
        lk.run(failing, 3, on, trace_ti=tmp_path / "t.txt", compute="none", timeout_s=60)
    left = tmp_path / "t.txt.incomplete"
    assert any(str(left) in note for note in failed.value.__notes__)
    assert left.read_text().split("\n")[1:] == [
        *(line for rank in range(3) for line in (f"{rank} init", f"{rank} barrier")), "",
    ]  # fmt: skip
    with pytest.raises((lk.errors.DeadlockError, lk.errors.TimeLimitError)) as hung:
        lk.run(lambda comm: comm.recv(source=0), 2, on, trace_ti=tmp_path / "h", compute="none", timeout_s=60)
    assert __file__ in str(hung.value)
    assert "recorder" not in str(hung.value)
    assert (tmp_path / "h.incomplete").read_text().endswith("0 init\n1 init\n")

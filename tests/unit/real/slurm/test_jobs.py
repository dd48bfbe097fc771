"""Jobs without a Slurm: what is written, how points are divided, how answers are read."""

from __future__ import annotations

import os
import subprocess

import pytest

import labkit as lk
from labkit.errors import MachineError, TimeLimitError
from labkit.launch.run import checked_request
from labkit.real.failure import read_ending
from labkit.real.slurm import commands
from labkit.real.slurm.collect import lost_error
from labkit.real.slurm.commands import JobState, batch_script, job_name
from labkit.real.slurm.store import JobFolder, find_jobs
from labkit.real.slurm.submit import Batch, divide, make_point
from tests.support.refusals import raises_code


def program(comm, n=1):
    return n


def points(cluster, *sizes):
    return [make_point(checked_request(program, ranks, on=cluster, kwargs={"n": n})) for ranks, n in sizes]


@pytest.fixture
def sbatch(tmp_path, monkeypatch):
    """Commands of Slurm that say what a test wants: a dict of scripts."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def answer(name, text):
        path = folder / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)

    answer("sbatch", "echo '4711;big'\n")
    answer("squeue", "exit 0\n")
    return answer


@pytest.mark.slow
def test_points_of_one_size_share_a_job():
    cluster = lk.slurm(ranks_per_node=4)
    made = points(cluster, (16, 1), (4, 1), (2, 1), (16, 2), (64, 1))
    groups = divide(made, cluster)
    assert [[point.ranks for point in group] for group in groups] == [[4, 2], [16, 16], [64]]
    few = cluster.changed(max_jobs=2)
    assert [[point.ranks for point in group] for group in divide(made, few)] == [[16, 4, 2, 16], [64]]
    one = cluster.changed(max_jobs=1)
    assert divide(made, one) == [made]


def test_the_script_asks_for_what_was_given(tmp_path):
    cluster = lk.slurm(
        partition="big one", account="p", qos="q", nodes=2, cpus_per_rank=3, mem="4G", constraint="a&b",
        exclusive=True, extra=["--gres=gpu:1"], modules=["gcc/13", "a'b"], setup=["export A=1"],
        time="1:00:00",
    )  # fmt: skip
    folder = tmp_path / "50% done"
    text = batch_script(cluster, folder, name="labkit-x", ranks=8, seconds=9, work="/some where")
    asked = [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]
    assert asked == [
        "--job-name=labkit-x", f'--output="{tmp_path}/50%% done/slurm.out"', "--open-mode=append",
        "--ntasks=8", "--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=3", '--partition="big one"',
        "--account=p", "--qos=q", "--time=1:00:00", "--mem=4G", '--constraint="a&b"', "--exclusive",
        "--gres=gpu:1",
    ]  # fmt: skip
    assert text.startswith("#!/bin/bash -l\n")
    assert (
        text.index("module load gcc/13 ") < text.index("export A=1") < text.index("labkit.real.slurm.inside")
    )
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0


def test_without_a_time_the_points_decide(tmp_path):
    text = batch_script(lk.slurm(), tmp_path, name="x", ranks=1, seconds=61, work="/")
    assert "#SBATCH --time=2\n" in text
    assert "--time" not in batch_script(lk.slurm(), tmp_path, name="x", ranks=1, seconds=None, work="/")
    assert text.startswith("#!/bin/bash\n")


@pytest.mark.slow
def test_a_job_is_submitted_once_and_found_again(tmp_path, sbatch):
    cluster = lk.slurm(folder=str(tmp_path / "jobs"))
    first = Batch(cluster, print)
    first.submit(points(cluster, (2, 1), (2, 2)))
    (job,) = first.jobs
    assert job.job_id == "4711"
    assert os.stat(job.path).st_mode & 0o777 == 0o700
    again = Batch(cluster, print)
    again.submit(points(cluster, (2, 2), (2, 1), (2, 3)))
    assert again.found == 2
    assert len(list(find_jobs(cluster.folder_path))) == 2
    first.finish()
    third = Batch(cluster, print)
    third.submit(points(cluster, (2, 1)))
    assert third.found == 0
    named = Batch(cluster.changed(name="mine"), print)
    named.submit(points(cluster, (2, 3)))
    assert named.found == 0, "jobs without a name are not those of a name"


def test_folders_of_others_are_left_alone(tmp_path, sbatch):
    """Their results are pickles: reading one runs what its author wants."""
    cluster = lk.slurm(folder=str(tmp_path))
    batch = Batch(cluster, print)
    batch.submit(points(cluster, (2, 1)))
    (job,) = batch.jobs
    job.path.chmod(0o777)
    assert list(find_jobs(str(tmp_path))) == []
    job.path.chmod(0o700)
    (job.path / "job.json").write_text("{")
    assert JobFolder.open(job.path) is None


def test_a_rejected_job_leaves_nothing(tmp_path, sbatch):
    sbatch(
        "sbatch", "echo 'sbatch: error: Batch job submission failed: Invalid qos specification' >&2; exit 1\n"
    )
    cluster = lk.slurm(folder=str(tmp_path / "jobs"), qos="gold")
    with raises_code(MachineError, "scheduler-failed", "qos='gold'"):
        Batch(cluster, print).submit(points(cluster, (2, 1)))
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path, sbatch):
    (tmp_path / "file").write_text("")
    cluster = lk.slurm(folder=str(tmp_path / "file" / "jobs"))
    with raises_code(MachineError, "unwritable-file", "folder="):
        Batch(cluster, print).submit(points(cluster, (2, 1)))


def test_answers_of_squeue(sbatch):
    sbatch("squeue", "echo '1|PENDING|Priority|N/A'; echo '2|RUNNING|None|2026-01-02T03:04:05'\n")
    assert commands.job_states(["1", "2"]) == {
        "1": JobState("PENDING", "Priority"), "2": JobState("RUNNING", "None", "2026-01-02T03:04:05"),
    }  # fmt: skip
    sbatch("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller (x)' >&2; exit 1\n")
    with pytest.raises(commands.SilentError, match="Unable to contact"):
        commands.job_states(["1"])
    sbatch("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1\n")
    assert commands.job_states(["1"]) == {}
    sbatch("squeue", "echo '3|RUNNING|None|N/A'; echo '9|RUNNING|None|N/A'\n")
    assert list(commands.job_states(["1", "3"])) == ["3"], "one is forgotten, one is somebody else's"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "kind", "sentence"),
    [
        (JobState("CANCELLED", "JobHeldUser"), MachineError, "was cancelled"),
        (JobState("TIMEOUT"), TimeLimitError, r"reached its time limit \(3 min\)"),
        (JobState("NODE_FAIL"), MachineError, "lost one of its nodes"),
        (JobState("OUT_OF_MEMORY"), MachineError, "ran out of memory"),
        (JobState("FAILED", "JobLaunchFailure", "", "0:53"), MachineError, "compute nodes do not see"),
        (JobState("FAILED", "NonZeroExitCode", "", "1:0"), MachineError, "without a result or output"),
        (None, MachineError, "Slurm no longer lists it"),
    ],
)
def test_jobs_that_left_no_result(tmp_path, sbatch, state, kind, sentence):
    cluster = lk.slurm(folder=str(tmp_path), time=None)
    batch = Batch(cluster, print)
    batch.submit(points(cluster, (2, 1)))
    error = lost_error(batch.jobs[0], state)
    assert isinstance(error, kind)
    with pytest.raises(kind, match=sentence):
        raise error


def test_a_job_within_a_job_is_sized_anew(sbatch, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_NTASKS_PER_NODE", "99")
    monkeypatch.setenv("SLURM_CONF", "/some/conf")
    sbatch("sbatch", f"env > {tmp_path}/seen; echo 1\n")
    commands.submit(tmp_path / "script.sh", lk.slurm())
    seen = (tmp_path / "seen").read_text()
    assert "SLURM_NTASKS_PER_NODE" not in seen
    assert "SLURM_CONF=/some/conf" in seen


def test_names_of_jobs_are_plain():
    assert job_name("a1b2c3", "my prog$(x)") == "labkit-a1b2c3-my_prog__x_"


@pytest.mark.parametrize(
    ("line", "rank", "signal", "status"),
    [
        ("srun: error: n1: task 1: Killed", 1, 9, None),
        ("srun: error: n2: tasks 2-3: Exited with exit code 3", 2, None, 3),
        ("srun: error: n2: task 5: Segmentation fault (core dumped)", 5, 11, None),
    ],
)
def test_what_srun_says_of_a_rank(line, rank, signal, status):
    ending = read_ending(f"noise\n{line}\nsrun: error: n3: task 0: Terminated", {})
    assert (ending.rank, ending.signal, ending.status) == (rank, signal, status)

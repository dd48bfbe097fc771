"""Batch jobs from the request to the run, with an `sbatch` that starts the script at once on this host."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit.errors import MachineError, RankError
from labkit.real.slurm.store import find_jobs
from tests.support.refusals import raises_code

SBATCH = """\
#!/bin/sh
for script; do :; done
export SLURM_JOB_ID=4711 SLURM_JOB_NUM_NODES=1
setsid sh "$script" > "$(dirname "$script")/slurm.out" 2>&1 < /dev/null &
echo '4711;here'
"""
#: a job that is always running: what it has left says when it is over
SQUEUE = "#!/bin/sh\necho '4711|RUNNING|None|N/A'\n"


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", "#!/bin/sh\nexit 0\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return lk.slurm(folder=str(tmp_path / "jobs"))


def program(comm, n=1):
    with lk.phase("sum"):
        return comm.allreduce(n)


def failing(comm):
    if comm.rank == 1:
        raise ValueError("not today")
    comm.barrier()


@pytest.mark.slow
def test_a_run_is_a_job_that_is_handed_out_once(slurm):
    run = lk.run(program, 2, slurm, kwargs={"n": 3}, repeats=2)
    assert run.results == [6, 6]
    assert (run.on, run.machine["kind"], len(run.repetitions)) == ("slurm", "slurm", 2)
    assert set(run.phases["phase"]) == {"sum"}
    [job] = find_jobs(slurm.folder_path)
    assert job.is_collected(0)


@pytest.mark.slow
def test_a_rank_that_fails_is_named(slurm):
    with raises_code(RankError, "rank-failed", "not today") as caught:
        lk.run(failing, 2, slurm)
    assert caught.value.rank == 1


@pytest.mark.slow
def test_a_sweep_hands_in_its_jobs_before_it_waits_and_simulates_the_rest(slurm):
    study = lk.sweep(program, [1, 2], [slurm, "star"], n=[1, 2], repeats=1, warmup=0, progress=False)
    times = study.data.query("metric == 'makespan_s' and phase == ''")
    assert times.groupby("on").size().to_dict() == {"slurm": 4, "star": 4}
    jobs = list(find_jobs(slurm.folder_path))
    assert all(job.is_collected(number) for job in jobs for number in range(len(job.points)))


def test_options_are_those_of_slurm(slurm):
    with raises_code(MachineError, "unknown-name", "'partitoin'", "'partition'"):
        lk.run(program, 2, slurm, partitoin="debug")
    with raises_code(MachineError, "conflicting-options", "model"):
        lk.run(program, 2, slurm, model="lab")
